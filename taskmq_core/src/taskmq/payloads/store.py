"""The port: a place for bytes with names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from taskmq.errors import ConfigError

from .files import FilePayloadStore
from .names import job_of
from .remote import FsspecPayloadStore
from .stored import StoredPayload

if TYPE_CHECKING:
    from taskmq.plugins import Plugins

__all__ = ["PayloadStore", "StoredPayload", "job_of", "open_payload_store"]


class PayloadStore(Protocol):
    """Keeps bytes under names that always stand for the same bytes.

    Blocking, and called from several threads and processes at once. Whatever goes wrong, but for
    a name that is not there, is a `taskmq.errors.PayloadUnavailable`.
    """

    def put(self, name: str, data: bytes) -> None:
        """Store; on return it outlives the process. Again is harmless."""

    def get(self, name: str) -> bytes | None:
        """The bytes; ``None`` if there is no such name."""

    def delete(self, names: Sequence[str]) -> None:
        """Take them out, where they are there."""

    def stored(self) -> Iterator[StoredPayload]:
        """Everything that is there, in any order."""


def open_payload_store(url: str, plugins: Plugins | None = None) -> PayloadStore:
    """The store behind ``url``: ``file:///path``, a plugin's scheme, or one that fsspec knows, such
    as ``s3://bucket/folder``. Raises `ConfigError`."""
    scheme, separator, path = url.partition("://")
    if not separator or not path:
        raise ConfigError(
            f"{url!r} is no URL of a payload store; write e.g. file:///var/lib/payloads"
        )
    if scheme == "file":
        return FilePayloadStore(path)
    plugged = None if plugins is None else plugins.make_payload_store(scheme, url)
    return FsspecPayloadStore(url) if plugged is None else plugged
