"""Payloads as files in a folder, for processes that share it."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from taskmq.errors import PayloadUnavailable

from .names import is_name, shard_of
from .stored import StoredPayload

__all__ = ["FilePayloadStore"]

TEMPORARY = ".part-"
FORGOTTEN = 86_400.0
"""Seconds after which a file that was never finished is nobody's any more."""


class FilePayloadStore:
    """A `taskmq.payloads.PayloadStore` in a folder, which is made when it is needed.

    A payload is written to a file of another name, synced and then renamed: a reader sees all of
    it or nothing, also after a crash of the machine. Files are readable to their owner alone.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)

    def put(self, name: str, data: bytes) -> None:
        path = self._path(name)
        part = path.with_name(f"{TEMPORARY}{secrets.token_hex(8)}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            try:
                _write(part, data)
                part.replace(path)
            except BaseException:
                part.unlink(missing_ok=True)
                raise
            _sync(path.parent)
        except OSError as error:
            raise _unavailable(self._folder, error) from error

    def get(self, name: str) -> bytes | None:
        try:
            return self._path(name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unavailable(self._folder, error) from error

    def delete(self, names: Sequence[str]) -> None:
        try:
            for name in names:
                self._path(name).unlink(missing_ok=True)
        except OSError as error:
            raise _unavailable(self._folder, error) from error

    def stored(self) -> Iterator[StoredPayload]:
        """It also takes out what was begun a day ago and never finished."""
        try:
            for shard in sorted(self._folder.iterdir()) if self._folder.exists() else ():
                if shard.is_dir():
                    yield from self._stored_in(shard)
        except OSError as error:
            raise _unavailable(self._folder, error) from error

    def _stored_in(self, shard: Path) -> Iterator[StoredPayload]:
        with os.scandir(shard) as entries:
            for entry in entries:
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue  # another sweep was faster
                if is_name(entry.name):
                    yield StoredPayload(entry.name, status.st_size, status.st_mtime)
                elif entry.name.startswith(TEMPORARY) and status.st_mtime < _long_ago():
                    Path(entry.path).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        if not is_name(name):
            raise PayloadUnavailable(f"{name!r} is no name of a payload")
        return self._folder / shard_of(name) / name

    def __repr__(self) -> str:
        return f"file://{self._folder}"


def _long_ago() -> float:
    return time.time() - FORGOTTEN


def _write(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    """What was renamed is durable only with its folder."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unavailable(folder: Path, error: OSError) -> PayloadUnavailable:
    return PayloadUnavailable(f"the payload store file://{folder} does not work: {error}")
