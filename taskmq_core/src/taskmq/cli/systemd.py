"""Telling a service manager how it is: the protocol of sd_notify(3), which is a datagram."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import MutableMapping

__all__ = ["ServiceManager"]

MICROSECONDS = 1_000_000


class ServiceManager:
    """Who started this process and listens at ``address``, if anybody.

    ``watchdog`` is how many seconds it may be without a sign of life, if that is watched.
    """

    def __init__(self, address: str | None = None, watchdog: float | None = None) -> None:
        self.watchdog = watchdog
        self._address = "\0" + address[1:] if address and address.startswith("@") else address

    @classmethod
    def from_env(cls, environ: MutableMapping[str, str] | None = None) -> ServiceManager:
        """As the environment says. Takes the variables out, so that processes that tasks start do
        not speak for the worker."""
        environ = os.environ if environ is None else environ
        address = environ.pop("NOTIFY_SOCKET", None)
        interval, pid = environ.pop("WATCHDOG_USEC", ""), environ.pop("WATCHDOG_PID", "")
        mine = pid in ("", str(os.getpid()))
        watched = address is not None and mine and interval.isdigit() and int(interval) > 0
        return cls(address, int(interval) / MICROSECONDS if watched else None)

    @property
    def listens(self) -> bool:
        """Whether there is one."""
        return self._address is not None

    def ready(self, status: str) -> None:
        """Jobs are taken from now on."""
        self._tell(f"READY=1\nSTATUS={status}")

    def alive(self, status: str) -> None:
        """A sign of life."""
        self._tell(f"WATCHDOG=1\nSTATUS={status}")

    def status(self, status: str) -> None:
        """For people."""
        self._tell(f"STATUS={status}")

    def stopping(self, status: str, seconds: float) -> None:
        """The end begins, and may take so long, whatever the unit's own limit is."""
        limit = int(seconds * MICROSECONDS)
        self._tell(f"STOPPING=1\nSTATUS={status}\nEXTEND_TIMEOUT_USEC={limit}")

    def _tell(self, message: str) -> None:
        if self._address is None:
            return
        # Nobody there, or its buffer is full: no reason for a worker to stop, or to wait.
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender,
        ):
            sender.setblocking(False)
            sender.connect(self._address)
            sender.send(message.encode())
