"""Signals: named points in a program to which receivers can be connected.

>>> @task_success.connect(sender="proj.tasks.add")
... def added(sender=None, result=None, **kwargs): ...

Receivers are held weakly unless ``weak=False``; bound methods too. A receiver must take keyword
arguments. Its exceptions are logged and never reach the sender.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Iterable
from functools import partial, wraps
from inspect import Parameter, signature
from typing import Any

from kombu.utils.functional import retry_over_time

from celery.local import Proxy

__all__ = ("Signal",)

logger = logging.getLogger(__name__)

Receiver = Callable[..., Any]
Key = tuple[Any, Any]

RETRY_SLEEP = 1.0
MAX_RETRY_SLEEP = 30.0


class Signal:
    """One signal. ``providing_args`` documents what is sent along with ``sender``.

    Connecting and sending are safe from any thread. ``receivers`` stays the same list, changed in
    one step; a send goes through a copy, and needs no lock.
    """

    def __init__(
        self,
        providing_args: Iterable[str] | None = None,
        use_caching: bool = False,
        name: str | None = None,
    ) -> None:
        self.receivers: list[tuple[Key, Any]] = []
        self.providing_args = set(providing_args or ())
        self.use_caching = use_caching
        self.name = name
        self.lock = threading.Lock()

    def connect(self, *args: Any, **kwargs: Any) -> Any:
        """Connect a receiver; usable as decorator, with and without arguments.

        ``sender`` limits it to one sender (a task's name stands for the task), ``weak=False``
        keeps the receiver alive, ``dispatch_uid`` makes a second connect of the same receiver
        harmless where it is made anew each time, ``retry=True`` calls it again until it succeeds.
        """
        if "receiver" in kwargs or (args and callable(args[0])):
            return self._connect(*args, **kwargs)
        return partial(self._connect, **{**dict(zip(("sender",), args, strict=False)), **kwargs})

    def _connect(
        self,
        receiver: Receiver,
        sender: Any = None,
        weak: bool = True,
        dispatch_uid: Any = None,
        retry: bool = False,
    ) -> Receiver:
        _require_keywords(receiver)
        key = _key(receiver, sender, dispatch_uid)
        held: Any = receiver
        if retry:
            held, weak = _persistent(receiver), False
        if weak:
            held = _weak(receiver)
        with self.lock:
            alive = _alive(self.receivers or [])
            if all(known != key for known, _ in alive):
                alive.append((key, held))
            self._keep(alive)
        return held if retry else receiver

    def disconnect(
        self,
        receiver: Receiver | None = None,
        sender: Any = None,
        weak: bool | None = None,
        dispatch_uid: Any = None,
    ) -> bool:
        """Take a receiver out; whether it was there."""
        key = _key(receiver, sender, dispatch_uid)
        with self.lock:
            alive = _alive(self.receivers or [])
            left = [each for each in alive if each[0] != key]
            self._keep(left)
        return len(left) < len(alive)

    def has_listeners(self, sender: Any = None) -> bool:
        """Whether a send with this sender would reach anybody."""
        return bool(self.receivers) and bool(self._live_receivers(sender))

    def send(self, sender: Any, **named: Any) -> list[tuple[Receiver, Any]]:
        """Call every receiver that listens to ``sender``, in the order of connection.

        Returns pairs of receiver and what it returned; or the exception it raised, which is
        logged.
        """
        if not self.receivers:
            return []
        responses = []
        for receiver in self._live_receivers(sender):
            try:
                response = receiver(signal=self, sender=sender, **named)
            except Exception as error:
                response = error
                if not hasattr(error, "__traceback__"):
                    raise
                logger.exception("Signal handler %r raised: %r", receiver, error)
            responses.append((receiver, response))
        return responses

    def send_robust(self, sender: Any, **named: Any) -> list[tuple[Receiver, Any]]:
        """The same as `send`, which never raises."""
        return self.send(sender, **named)

    def _keep(self, receivers: list[tuple[Key, Any]]) -> None:
        """Have these from now on, in the same list: others may hold it. With the lock."""
        if self.receivers is None:
            self.receivers = []
        self.receivers[:] = receivers

    def _live_receivers(self, sender: Any) -> list[Receiver]:
        wanted = {id(None), _sender_key(sender)}
        found, died = [], False
        for (_, sender_key), held in list(self.receivers or ()):
            receiver = _dereference(held)
            if receiver is None:
                died = True
            elif sender_key in wanted:
                found.append(receiver)
        if died:
            with self.lock:
                self._keep(_alive(self.receivers or []))
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.providing_args, self.use_caching, self.name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.name} providing_args={self.providing_args!r}>"

    __str__ = __repr__


def _key(receiver: Receiver | None, sender: Any, dispatch_uid: Any) -> Key:
    if dispatch_uid:
        return dispatch_uid, _sender_key(sender)
    receiver = getattr(receiver, "persistent", receiver)
    owner = getattr(receiver, "__self__", None)
    function = getattr(receiver, "__func__", None)
    identity = id(receiver) if function is None else (id(owner), id(function))
    return identity, _sender_key(sender)


def _sender_key(sender: Any) -> Any:
    """Tasks are known by name: a proxy, a task and its name are the same sender. So are an app
    and a proxy of it."""
    if isinstance(sender, str):
        return sender
    if isinstance(sender, Proxy):
        sender = sender._get_current_object()
    if sender is not None and hasattr(sender, "apply_async"):
        return sender.name
    return id(sender)


def _require_keywords(receiver: Receiver) -> None:
    if not callable(receiver):
        raise TypeError(f"a signal receiver must be callable, got {receiver!r}")
    try:
        parameters = signature(receiver).parameters.values()
    except (TypeError, ValueError):  # a builtin without signature: nobody can know
        return
    if not any(p.kind is Parameter.VAR_KEYWORD for p in parameters):
        raise ValueError("Signal receiver must accept keyword arguments.")


def _persistent(receiver: Receiver) -> Receiver:
    @wraps(receiver)
    def call_until_done(*args: Any, **kwargs: Any) -> Any:
        def report(error: Exception, intervals: Any, retries: int) -> float:
            logger.warning("Signal handler %r failed, will be called again: %r", receiver, error)
            return float(next(intervals))

        return retry_over_time(
            receiver,
            Exception,
            args,
            kwargs,
            report,
            interval_start=RETRY_SLEEP,
            interval_max=MAX_RETRY_SLEEP,
        )

    call_until_done.persistent = receiver  # type: ignore[attr-defined]  # what it stands for
    return call_until_done


def _weak(receiver: Receiver) -> Any:
    if hasattr(receiver, "__self__") and hasattr(receiver, "__func__"):
        return weakref.WeakMethod(receiver)
    return weakref.ref(receiver)


def _dereference(held: Any) -> Receiver | None:
    found: Receiver | None = held() if isinstance(held, weakref.ReferenceType) else held
    return found


def _alive(receivers: list[tuple[Key, Any]]) -> list[tuple[Key, Any]]:
    return [each for each in receivers if _dereference(each[1]) is not None]
