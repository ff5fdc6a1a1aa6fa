"""One store on a server: runs its scripts, translates errors, and looks at the server once."""

from __future__ import annotations

import logging
import os
import re
import secrets
import threading
from typing import Any

from redis.connection import AbstractConnection
from redis.exceptions import NoScriptError, ResponseError

from taskmq.errors import SchemaMismatch, TransportError
from taskmq.patience import within

from .errors import FAILURES, translate
from .links import open_link
from .options import Options
from .scripts import script
from .wire import Arguments, encode

__all__ = ["SCHEMA", "Server"]

SCHEMA = 1
"""Version of the keyspace; field ``version`` of the key ``{namespace}:meta``."""
OLDEST = (6, 2)
VERSION = re.compile(rb"^redis_version:(\d+)\.(\d+)", re.MULTILINE)
POLICY = re.compile(rb"^maxmemory_policy:(allkeys-\w+)", re.MULTILINE)

log = logging.getLogger("taskmq.redis")


class Server:
    """Everything that the transport asks of Redis goes through here."""

    def __init__(self, options: Options) -> None:
        self.where = options.where
        self.namespace = options.namespace
        self.prefix = f"{{{options.namespace}}}:"
        self._key = self.name("jobs")
        # A key that never is. While a cluster moves the slot elsewhere, a script that names a key
        # which is not there is refused as a whole: some of the others may be on the other node.
        self._missing = self.name("none")
        self._link = open_link(options, self._key)
        self._timeout = options.timeout
        self._token = secrets.token_hex(8)
        self._checked = False
        self._checking = threading.Lock()

    def name(self, key: str) -> str:
        """The full name of a key or channel."""
        return f"{self.prefix}{key}"

    def sender(self) -> str:
        """What tells this store's messages from those of others; a fork is another."""
        return f"{self._token}{os.getpid()}"

    def run(self, command: str, arguments: Arguments) -> Any:
        """Run a script: one round trip. Raises `TransportError`."""
        return self.send(command, encode(arguments))

    def send(self, command: str, *values: bytes | str) -> Any:
        """Run a script that has its arguments one by one. Raises `TransportError`."""
        wanted, keys = script(command), ("2", self._key, self._missing)
        self._check()
        try:
            try:
                return self._link.call("EVALSHA", wanted.sha, *keys, *values)
            except NoScriptError:  # a new server, or one that has restarted
                return self._link.call("EVAL", wanted.source, *keys, *values)
        except FAILURES as error:
            raise self.translated(error) from error

    def ask(self, command: str, key: str, *values: bytes | str) -> Any:
        """Send a plain command. Raises `TransportError`."""
        self._check()
        try:
            return self._link.call(command, self.name(key), *values)
        except FAILURES as error:
            raise self.translated(error) from error

    def ask_pairs(self, key: str) -> list[tuple[bytes, bytes]]:
        """A whole hash. Raises `TransportError`."""
        answer = self.ask("HGETALL", key)
        if isinstance(answer, dict):  # RESP3
            return list(answer.items())
        return list(zip(answer[::2], answer[1::2], strict=True))

    def subscriber(self) -> AbstractConnection:
        """A connection for a listener. Raises what the driver raises."""
        return self._link.subscriber()

    def translated(self, error: Exception) -> TransportError:
        """The error of the port for one of the driver's."""
        return translate(error, self.where, self.namespace)

    def close(self) -> None:
        self._link.close()

    def _check(self) -> None:
        if not self._checked:
            with within(self._timeout), self._checking:
                if not self._checked:
                    self._look()
                    self._checked = True

    def _look(self) -> None:
        """Refuse a server that is too old, and a store of a later version."""
        try:
            version = self._link.call("HGET", self.name("meta"), "version")
        except FAILURES as error:
            raise self.translated(error) from error
        if version is not None and int(version) > SCHEMA:
            raise SchemaMismatch(
                f"{self.where}: namespace {self.namespace!r} has version {int(version)}, this "
                f"taskmq knows {SCHEMA}: it was used by a later version; upgrade taskmq here"
            )
        info = self._info()
        found = VERSION.search(info)
        if found and (int(found[1]), int(found[2])) < OLDEST:
            raise TransportError(
                f"{self.where} is Redis {found[1].decode()}.{found[2].decode()}; taskmq needs "
                f"{'.'.join(map(str, OLDEST))} or later"
            )
        policy = POLICY.search(info)
        if policy:
            log.warning(
                "%s may throw jobs away when its memory is full (maxmemory-policy %s); set "
                "maxmemory-policy noeviction",
                self.where,
                policy[1].decode(),
            )

    def _info(self) -> bytes:
        try:
            answer = self._link.call("INFO")
        except ResponseError:
            return b""  # not permitted: then nothing is known
        except FAILURES as error:
            raise self.translated(error) from error
        if isinstance(answer, dict):  # as the driver has it from a node of a cluster
            answer = "".join(f"{name}:{value}\n" for name, value in answer.items()).encode()
        return answer if isinstance(answer, bytes) else b""
