"""Payloads wherever fsspec can put them: S3, GCS, Azure, SFTP and others."""

from __future__ import annotations

import datetime
import importlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from taskmq.errors import ConfigError, PayloadUnavailable

from .names import is_name, shard_of
from .stored import StoredPayload

__all__ = ["FsspecPayloadStore"]

R = TypeVar("R")
TIMES = ("LastModified", "last_modified", "mtime", "updated", "created")
"""What file systems call the instant of the last write."""


class FsspecPayloadStore:
    """A `taskmq.payloads.PayloadStore` behind a URL of fsspec, whose driver has to be installed.

    Credentials and the like come from where the driver looks for them (for ``s3://`` the usual
    variables and files), not from the URL.
    """

    def __init__(self, url: str) -> None:
        """Raises `ConfigError` if fsspec or the driver is not installed."""
        self._url = url
        self._name = url.partition("://")[0] + "://"
        try:
            self._fsspec: Any = importlib.import_module("fsspec")
        except ModuleNotFoundError:
            raise ConfigError(
                f"the payload store {self._name} needs fsspec: pip install 'taskmq-py[fsspec]', "
                "and the driver (for s3:// that is s3fs)"
            ) from None
        self._opened: tuple[int, Any, str] | None = None
        self._open()

    def put(self, name: str, data: bytes) -> None:
        fs, root = self._open()

        def write() -> None:
            path = self._path(root, name)
            fs.makedirs(path.rpartition("/")[0], exist_ok=True)
            fs.pipe_file(path, data)

        self._do(write)

    def get(self, name: str) -> bytes | None:
        fs, root = self._open()
        try:
            return bytes(self._do(lambda: fs.cat_file(self._path(root, name))))
        except FileNotFoundError:
            return None

    def delete(self, names: Sequence[str]) -> None:
        fs, root = self._open()
        for name in names:
            try:
                self._do(lambda name=name: fs.rm_file(self._path(root, name)))  # type: ignore[misc]  # mypy has no type for a lambda with a default
            except FileNotFoundError:
                continue

    def stored(self) -> Iterator[StoredPayload]:
        fs, root = self._open()
        try:
            found = self._do(lambda: fs.find(root, detail=True))
        except FileNotFoundError:
            return
        for path, info in found.items():
            name = path.rpartition("/")[2]
            if is_name(name):
                yield StoredPayload(name, int(info.get("size") or 0), _instant(info))

    def _open(self) -> tuple[Any, str]:
        """The file system, opened in this process: a connection must not be shared with a fork."""
        if self._opened is None or self._opened[0] != os.getpid():
            fork = self._opened is not None
            try:
                fs, root = self._fsspec.core.url_to_fs(self._url, **_fresh(fork))
            except (ImportError, ValueError) as error:
                raise ConfigError(f"the payload store {self._name}: {error}") from error
            self._opened = (os.getpid(), fs, root.rstrip("/"))
        return self._opened[1], self._opened[2]

    def _path(self, root: str, name: str) -> str:
        if not is_name(name):
            raise PayloadUnavailable(f"{name!r} is no name of a payload")
        return f"{root}/{shard_of(name)}/{name}"

    def _do(self, call: Callable[[], R]) -> R:
        try:
            return call()
        except (FileNotFoundError, PayloadUnavailable):
            raise
        except Exception as error:  # each driver has its own
            text = f"{type(error).__name__}: {error}"
            raise PayloadUnavailable(
                f"the payload store {self._name} does not work: {text}"
            ) from error

    def __repr__(self) -> str:
        return self._name


def _fresh(fork: bool) -> dict[str, Any]:
    """fsspec keeps file systems for reuse; what a parent process opened is not for its child."""
    return {"skip_instance_cache": True} if fork else {}


def _instant(info: dict[str, Any]) -> float | None:
    for name in TIMES:
        value = info.get(name)
        if isinstance(value, datetime.datetime):
            return value.timestamp()
        if isinstance(value, (int, float)):
            return float(value)
        if isinstance(value, str):
            try:
                return datetime.datetime.fromisoformat(value.replace("Z", "+00:00")).timestamp()
            except ValueError:
                continue
    return None
