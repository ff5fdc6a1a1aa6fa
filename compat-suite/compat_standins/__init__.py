"""Stand-ins, made of processes, for the Docker containers of pytest-celery.

pytest-celery asks one object for everything it needs of Docker: the fixture `docker_client` of
pytest-docker-tools. The plugin (``-p compat_standins.plugin``) gives another one in its place:

    client        images, containers, networks and volumes as the Docker SDK names them
    container     one container, as the SDK shows it
    machine       what a container is here: an address, a folder, a family of processes
    images        which program an image stands for, and in which environment
    servers       redis, RabbitMQ, memcached
    environments  Celery of a version, for the images of workers
    ports         published ports: from 127.0.0.1 to the container's address
    family        all processes of a container
    limits        a limit on their processor time
    guest/        what Python programs in a container see in place of the machine's own

The servers are started like those of our own tests, with the same programs and guard.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

# For `tests.services`; at the end, where it hides nothing of the suite that runs.
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))
