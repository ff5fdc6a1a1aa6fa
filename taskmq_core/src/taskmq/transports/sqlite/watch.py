"""What tells that a file changed: inotify on Linux, kqueue on macOS and the BSDs.

A `Source` has a file descriptor to poll, which becomes readable with a change. What changed does
not matter: the listener asks the database.
"""

from __future__ import annotations

import ctypes
import os
import select
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

__all__ = ["OpenSource", "Source", "open_source"]


class Source(Protocol):
    """Notices changes of one file."""

    def fileno(self) -> int: ...

    def drain(self) -> bool:
        """Forget the changes so far; whether there were any."""

    def is_current(self) -> bool:
        """Whether the file that is watched is still the one of that name."""

    def close(self) -> None: ...


OpenSource = Callable[[Path], Source | None]
"""Watches a file; ``None`` where that is impossible, or there is no such file (yet)."""

IN_MODIFY, IN_ATTRIB, IN_DELETE_SELF, IN_MOVE_SELF = 0x2, 0x4, 0x400, 0x800


def open_source(path: Path) -> Source | None:
    """The source for this system. See `OpenSource`."""
    try:
        return _open(path, path.stat().st_ino)
    except OSError:
        return None


def _names(path: Path, inode: int) -> bool:
    try:
        return path.stat().st_ino == inode
    except OSError:
        return False


class InotifySource:
    """inotify(7), which the standard library does not wrap. Raises ``OSError``."""

    def __init__(self, path: Path, inode: int) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._path, self._inode = path, inode
        self._fd = int(libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        # ATTRIB: the file was unlinked while others have it open.
        mask = IN_MODIFY | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF
        if libc.inotify_add_watch(self._fd, os.fsencode(path), mask) < 0:
            error = ctypes.get_errno()
            os.close(self._fd)
            raise OSError(error, "inotify_add_watch")

    def fileno(self) -> int:
        return self._fd

    def drain(self) -> bool:
        try:
            return bool(os.read(self._fd, 65536))
        except BlockingIOError:
            return False

    def is_current(self) -> bool:
        return _names(self._path, self._inode)

    def close(self) -> None:
        os.close(self._fd)


if sys.platform == "linux":

    def _open(path: Path, inode: int) -> Source | None:
        return InotifySource(path, inode)

else:  # pragma: no cover  # covered where it can run

    def _open(path: Path, inode: int) -> Source | None:
        return KqueueSource(path, inode) if hasattr(select, "kqueue") else None

    class KqueueSource:
        """kqueue(2) on an open file."""

        def __init__(self, path: Path, inode: int) -> None:
            self._path, self._inode = path, inode
            self._file = os.open(path, getattr(os, "O_EVTONLY", os.O_RDONLY) | os.O_CLOEXEC)
            self._queue = select.kqueue()
            changes = (
                select.KQ_NOTE_WRITE
                | select.KQ_NOTE_EXTEND
                | select.KQ_NOTE_DELETE
                | select.KQ_NOTE_RENAME
            )
            event = select.kevent(
                self._file,
                filter=select.KQ_FILTER_VNODE,
                flags=select.KQ_EV_ADD | select.KQ_EV_CLEAR,
                fflags=changes,
            )
            self._queue.control([event], 0, 0)

        def fileno(self) -> int:
            return self._queue.fileno()

        def drain(self) -> bool:
            return bool(self._queue.control(None, 8, 0))

        def is_current(self) -> bool:
            return _names(self._path, self._inode)

        def close(self) -> None:
            self._queue.close()
            os.close(self._file)
