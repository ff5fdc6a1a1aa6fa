"""A worker's ends of what connects it with one child. Nothing here ever blocks.

* A socket for deliveries and reports, whose bytes wait here for as long as the child has no room.
* A pipe with one token for each delivery that has not started. Parent and child read the same pipe,
  and the kernel gives each token to one of them. So the parent can take a delivery back whatever
  the child is doing: stopped, or deep inside a library.
* A pipe for what a running task has to be told.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections import deque
from collections.abc import Sequence
from fcntl import ioctl
from termios import FIONREAD

from .child import CONTROL, TOKEN
from .nursery import Fds
from .wire import Frames, Hello, Report, Work, decode_reports, encode

__all__ = ["Channel"]

_BYTE_ORDER = sys.byteorder
CHUNK = 256 * 1024


class Channel:
    """``hello`` goes to a child that has to be told what to work on. Raises `OSError` if there are
    no file handles left for it."""

    def __init__(self, hello: Hello | None = None) -> None:
        with contextlib.ExitStack() as undo:  # any of them may be one too many for the system
            self.socket, self._far_socket = socket.socketpair()
            undo.enter_context(self.socket)
            undo.enter_context(self._far_socket)
            self._tokens, self._tokens_write = os.pipe()
            undo.callback(os.close, self._tokens)
            undo.callback(os.close, self._tokens_write)
            self._far_control, self._control = os.pipe()
            undo.pop_all()
        self.socket.setblocking(False)
        for descriptor in (self._tokens, self._tokens_write, self._control):
            os.set_blocking(descriptor, False)
        self._outgoing: deque[tuple[set[int], memoryview]] = deque()
        self._begun = False  # part of the first frame is with the child
        self._frames = Frames()
        self._retired = False
        if hello is not None:
            self._outgoing.append((set(), memoryview(encode(hello))))

    @property
    def far(self) -> Fds:
        """The child's ends."""
        return Fds(self._far_socket.fileno(), self._tokens, self._far_control)

    def hand_over(self) -> None:
        """The child has its ends now."""
        self._far_socket.close()
        os.close(self._far_control)
        self._far_control = -1

    # -- deliveries --------------------------------------------------------------------------

    def send(self, works: Sequence[Work]) -> None:
        """Let the child have these, as soon as there is room."""
        numbers = [work.seq for work in works]
        self._outgoing.append((set(numbers), memoryview(encode(works))))
        os.write(self._tokens_write, b"".join(map(TOKEN.pack, numbers)))

    def unstarted(self) -> int:
        """How many could be taken back; a snapshot."""
        if self._tokens < 0:
            return 0
        size = bytearray(4)
        ioctl(self._tokens, FIONREAD, size)
        return int.from_bytes(size, _BYTE_ORDER) // TOKEN.size

    def take_back(self) -> list[int]:
        """Numbers of deliveries that the child will not start any more, in order."""
        numbers: list[int] = []
        with contextlib.suppress(BlockingIOError):
            while self._tokens >= 0 and (data := os.read(self._tokens, 4096)):
                numbers += [number for (number,) in TOKEN.iter_unpack(data)]
        if numbers and self._outgoing:
            self._forget(set(numbers))
        return numbers

    def retire(self) -> None:
        """The child ends when it has run what it has; nothing may be sent any more."""
        if not self._retired:
            self._retired = True
            os.close(self._tokens_write)

    def _forget(self, numbers: set[int]) -> None:
        """Do not send what the child would skip."""
        first = 1 if self._begun else 0
        kept = [item for item in list(self._outgoing)[first:] if not item[0] or item[0] - numbers]
        self._outgoing = deque([*list(self._outgoing)[:first], *kept])

    # -- bytes -------------------------------------------------------------------------------

    def flush(self) -> bool:
        """Send what there is room for; whether that was all. Raises ``ConnectionError``."""
        while self._outgoing:
            numbers, data = self._outgoing[0]
            try:
                sent = self.socket.send(data)
            except BlockingIOError:
                return False
            if sent < len(data):
                self._outgoing[0] = (numbers, data[sent:])
                self._begun = True
            else:
                self._outgoing.popleft()
                self._begun = False
        return True

    def receive(self) -> list[Report]:
        """What the child has reported. Raises ``EOFError`` once there will be no more."""
        reports: list[Report] = []
        while True:
            try:
                data = self.socket.recv(CHUNK)
            except BlockingIOError:
                return reports
            except ConnectionError:
                data = b""
            if not data:
                if reports:
                    return reports  # the end will be found again
                raise EOFError
            for frame in self._frames.feed(data):
                reports += decode_reports(frame)
            if len(data) < CHUNK:
                return reports

    def tell(self, number: int, *, lease_lost: bool) -> None:
        """Interrupt the child with news of the delivery that it runs."""
        with contextlib.suppress(OSError):  # it has gone, or looks at nothing any more
            os.write(self._control, CONTROL.pack(number, lease_lost))

    def close(self) -> None:
        self.retire()
        self.socket.close()
        self._far_socket.close()
        for descriptor in (self._tokens, self._control, self._far_control):
            if descriptor >= 0:
                os.close(descriptor)
        self._tokens = self._control = self._far_control = -1
