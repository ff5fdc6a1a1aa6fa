"""Values of one thread each, and threads in the background."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import TIMEOUT_MAX as THREAD_TIMEOUT_MAX
from typing import Any

from celery.local import Proxy, Subscriptable

__all__ = (
    "Local",
    "LocalManager",
    "LocalStack",
    "bgThread",
    "bound_open_broker_sockets",
    "default_socket_timeout",
    "get_ident",
)

get_ident = threading.get_ident


# -- sockets ---------------------------------------------------------------------------------------


@contextmanager
def default_socket_timeout(timeout: float | None) -> Iterator[None]:
    """Sockets that are made inside time out after so many seconds."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(timeout)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


def bound_open_broker_sockets(connection: Any, timeout: float) -> None:
    """Let the open sockets of a kombu connection time out, so that closing it cannot hang.

    Nothing is opened for that, and what cannot be reached is left as it is.
    """
    for found in _sockets_of(connection):
        with contextlib.suppress(OSError):  # it is closed already
            found.settimeout(timeout)


def _sockets_of(connection: Any) -> Iterator[Any]:
    # Only what is there already: public attributes of kombu and amqp connect when they are read.
    try:
        transport = connection.transport
    except Exception:
        transport = None
    for channel in getattr(transport, "channels", None) or ():
        for name in ("client", "subclient"):
            client = vars(channel).get(name)
            yield from _not_none(getattr(getattr(client, "connection", None), "_sock", None))
    amqp = vars(connection).get("_connection")
    if amqp is not None:
        yield from _not_none(getattr(getattr(amqp, "_transport", None), "sock", None))


def _not_none(value: Any) -> tuple[Any, ...]:
    return () if value is None else (value,)


# -- threads ---------------------------------------------------------------------------------------


class bgThread(threading.Thread):  # noqa: N801  # Celery's name
    """A thread that calls `body` until it is stopped. An error there ends the process."""

    def __init__(self, name: str | None = None, **kwargs: Any) -> None:
        super().__init__()
        self.__is_shutdown = threading.Event()
        self.__is_stopped = threading.Event()
        self.daemon = True
        self.name = name or type(self).__name__

    def body(self) -> None:
        """What it does, again and again."""
        raise NotImplementedError

    def on_crash(self, msg: str, *fmt: Any, **kwargs: Any) -> None:
        sys.stderr.write(f"{msg.format(*fmt)}\n")
        traceback.print_exc(None, sys.stderr)

    def run(self) -> None:
        try:
            while not self.__is_shutdown.is_set():
                try:
                    self.body()
                except Exception as error:
                    with contextlib.suppress(Exception):
                        self.on_crash("{0!r} crashed: {1!r}", self.name, error)
                    sys.stderr.flush()
                    os._exit(1)
        finally:
            self.__is_stopped.set()

    def stop(self) -> None:
        """Let the current round end, and wait for it."""
        self.__is_shutdown.set()
        self.__is_stopped.wait()
        if self.is_alive():
            self.join(THREAD_TIMEOUT_MAX)


# -- values of a thread ----------------------------------------------------------------------------


def release_local(local: Any) -> None:
    """Forget what this thread has in a `Local` or `LocalStack`."""
    local.__release_local__()


class Local:
    """An object whose attributes each thread has its own values of."""

    __slots__ = ("__ident_func__", "__storage__")

    def __init__(self) -> None:
        object.__setattr__(self, "__storage__", {})
        object.__setattr__(self, "__ident_func__", get_ident)

    def __iter__(self) -> Iterator[tuple[int, dict[str, Any]]]:
        return iter(self.__storage__.items())

    def __call__(self, proxy: str) -> Any:
        """A proxy for the attribute of that name."""
        return Proxy(self, name=proxy)

    def __release_local__(self) -> None:
        self.__storage__.pop(self.__ident_func__(), None)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__storage__[self.__ident_func__()][name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self.__storage__.setdefault(self.__ident_func__(), {})[name] = value

    def __delattr__(self, name: str) -> None:
        try:
            del self.__storage__[self.__ident_func__()][name]
        except KeyError:
            raise AttributeError(name) from None


class LocalStack(threading.local, Subscriptable):
    """A stack of which every thread has its own.

    >>> stack = LocalStack()
    >>> stack.push(1)
    >>> stack.top
    1
    """

    def __init__(self) -> None:
        self.stack: list[Any] = []

    def push(self, obj: Any) -> None:
        self.stack.append(obj)

    def pop(self) -> Any:
        """Take the topmost off; ``None`` from an empty stack."""
        return self.stack.pop() if self.stack else None

    @property
    def top(self) -> Any:
        """The topmost, or ``None``."""
        return self.stack[-1] if self.stack else None

    def __len__(self) -> int:
        return len(self.stack)

    def __call__(self) -> Any:
        """A proxy for the topmost; using it with an empty stack is a ``RuntimeError``."""

        def topmost() -> Any:
            if self.top is None:
                raise RuntimeError("object unbound")
            return self.top

        return Proxy(topmost)

    def __release_local__(self) -> None:
        self.stack.clear()


class _LocalStack(LocalStack):
    """For programs that change how the owner of a value is told: ``__ident_func__``."""

    __ident_func__: Callable[[], int] = staticmethod(get_ident)

    @property
    def stack(self) -> list[Any]:
        """What this thread has, the topmost last."""
        return self._stack

    @stack.setter
    def stack(self, stack: list[Any]) -> None:
        self._stack = stack


_FastLocalStack = LocalStack


class LocalManager:
    """Several `Local` objects, to forget what this thread has in all of them."""

    def __init__(self, locals: Any = None, ident_func: Callable[[], int] | None = None) -> None:
        if locals is None:
            self.locals: list[Any] = []
        else:
            self.locals = [locals] if isinstance(locals, (Local, LocalStack)) else list(locals)
        self.ident_func = ident_func or get_ident
        if ident_func is not None:
            for local in self.locals:
                object.__setattr__(local, "__ident_func__", ident_func)

    def get_ident(self) -> int:
        return self.ident_func()

    def cleanup(self) -> None:
        for local in self.locals:
            release_local(local)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} storages: {len(self.locals)}>"
