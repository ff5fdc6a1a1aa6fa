"""Private instances of real servers, for tests, benchmarks and people.

    from tests import services

    with services.Redis({"appendonly": "yes"}) as redis:
        use(redis.url)
        redis.kill()
        redis.restart()

Each server listens on free ports of 127.0.0.1 and keeps its files in a temporary folder. Server
and folder go when the process that started them ends, however it ends. The programs are those of
the machine's packages; one that is missing raises `MissingProgram`.
"""

from .cluster import RedisCluster
from .group import Group, wait_until
from .home import TEMPORARY, Home
from .network import Network, NoNetworks
from .pgbouncer import PgBouncer
from .postgres import Postgres
from .programs import MissingProgram, find_program
from .proxy import Proxy, Way
from .rabbitmq import RabbitMQ
from .redis import Redis
from .sentinel import SentinelSet
from .service import Place, Service, ServiceError, free_port
from .standby import Standby

__all__ = [
    "TEMPORARY",
    "Group",
    "Home",
    "MissingProgram",
    "Network",
    "NoNetworks",
    "PgBouncer",
    "Place",
    "Postgres",
    "Proxy",
    "RabbitMQ",
    "Redis",
    "RedisCluster",
    "SentinelSet",
    "Service",
    "ServiceError",
    "Standby",
    "Way",
    "find_program",
    "free_port",
    "wait_until",
]
