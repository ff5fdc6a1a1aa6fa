"""What a Python program in a container sees: the name of the container as that of its host.

Python imports this module when it starts, because its folder is on PYTHONPATH there.
"""

import os
import socket


def gethostname() -> str:
    """The name of the container."""
    return os.environ["HOSTNAME"]


socket.gethostname = gethostname
