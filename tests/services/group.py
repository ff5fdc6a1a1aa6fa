"""Several servers that work as one, in one home."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TypeVar

from .home import Home
from .service import START_SECONDS, Service, ServiceError

G = TypeVar("G", bound="Group")
POLL_SECONDS = 0.02


class Group:
    """Servers that are started together; each can be killed, paused and restarted by itself."""

    def __init__(self, home: Home, members: Sequence[Service]) -> None:
        self.home = home
        self.members = tuple(members)

    @property
    def url(self) -> str:
        """What a client is given to find the whole."""
        raise NotImplementedError

    def form(self) -> None:
        """Make a whole of members that have just been started; it works on return."""

    def start(self: G) -> G:
        """Start every server and wait until the whole works. Raises `ServiceError`."""
        for member in self.members:
            member.start()
        self.form()
        return self

    def close(self) -> None:
        """Kill every server and remove their folder."""
        for member in self.members:
            member.kill()
        self.home.close()

    def __enter__(self: G) -> G:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def memory(self) -> int:
        """Resident bytes of all servers."""
        return sum(member.memory() for member in self.members)


def wait_until(condition: Callable[[], bool], what: str, seconds: float = START_SECONDS) -> None:
    """Wait for what a server does by itself. Raises `ServiceError` after the deadline."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise ServiceError(f"{what}: not within {seconds:.0f} s")
        time.sleep(POLL_SECONDS)
