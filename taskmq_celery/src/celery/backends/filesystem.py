"""``file:///path``: a file for each result, in a directory that every program can reach."""

from __future__ import annotations

import locale
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from kombu.utils.encoding import ensure_bytes
from kombu.utils.uuid import uuid

from celery.exceptions import ImproperlyConfigured

from .base import KeyValueStoreBackend

__all__ = ("FilesystemBackend",)

E_NO_PATH_SET = "You need to configure a path for the file-system backend"
E_PATH_NON_CONFORMING_SCHEME = (
    "A path for the file-system backend should conform to the file URI scheme"
)
E_PATH_INVALID = (
    "The configured path for the file-system backend does not\n"
    "work correctly, please make sure that it exists and has\n"
    "the correct permissions."
)


default_encoding = locale.getpreferredencoding(False)
"""Of the names of files."""


class FilesystemBackend(KeyValueStoreBackend):
    """Stores records as files. A reader never sees half of one."""

    supports_result_compression = True

    def __init__(
        self,
        url: str | None = None,
        open: Callable[..., Any] = open,
        unlink: Callable[[Any], None] = os.unlink,
        sep: str = os.sep,
        encoding: str = default_encoding,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.url = url
        self.open, self.unlink = open, unlink
        self.path = ensure_bytes(self._find_path(url))
        self.sep = sep.encode(encoding)
        self._directory_test()

    def _find_path(self, url: str | None) -> str:
        if not url:
            raise ImproperlyConfigured(E_NO_PATH_SET)
        if url.startswith("file://localhost/"):
            return unquote(urlsplit(url).path)
        if url.startswith("file://"):
            return unquote(url.removeprefix("file://"))
        raise ImproperlyConfigured(E_PATH_NON_CONFORMING_SCHEME)

    def _directory_test(self) -> None:
        """Whether files can be written, read and deleted there."""
        key = b".fs-backend-" + uuid().encode()
        try:
            self.set(key, b"test value")
            works = self.get(key) == b"test value"
            self.delete(key)
        except OSError:
            works = False
        if not works:
            raise ImproperlyConfigured(E_PATH_INVALID)

    def _filename(self, key: Any) -> bytes:
        return bytes(self.path + self.sep + ensure_bytes(key))

    def get(self, key: Any) -> bytes | None:
        try:
            with self.open(self._filename(key), "rb") as file:
                found: bytes = file.read()
                return found
        except FileNotFoundError:
            return None

    def set(self, key: Any, value: Any) -> None:
        name = self._filename(key)
        part = name + b"." + uuid().encode()
        with self.open(part, "wb") as file:
            file.write(ensure_bytes(value))
        os.replace(part, name)  # noqa: PTH105  # names are bytes

    def mget(self, keys: Iterable[Any]) -> list[bytes | None]:
        return [self.get(key) for key in keys]

    def delete(self, key: Any) -> None:
        try:
            self.unlink(self._filename(key))
        except FileNotFoundError:
            return

    def cleanup(self) -> None:
        """Delete the records of tasks that were written longer ago than results are kept."""
        if not self.expires:
            return
        oldest = time.time() - self.expires
        prefixes = tuple(
            ensure_bytes(each)
            for each in (self.task_keyprefix, self.group_keyprefix, self.chord_keyprefix)
        )
        for name in os.listdir(self.path):  # noqa: PTH208  # names are bytes
            path = Path(os.fsdecode(self._filename(name)))
            if name.startswith(prefixes) and path.stat().st_mtime < oldest:
                path.unlink(missing_ok=True)

    def __reduce__(self, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        return super().__reduce__(args, {**(kwargs or {}), "url": self.url})
