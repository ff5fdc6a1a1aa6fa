"""What every pool tells of itself, and how a program uses one by itself.

Tasks are run by the engine, on a pool of its own: of a worker's pool it takes the kind and the
size, and tells it of the worker's start and end. A program that has work of its own to be done,
such as `Request.execute_using_pool`, gives it to `BasePool.apply_async`.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any, ClassVar

from billiard.einfo import ExceptionInfo
from billiard.exceptions import WorkerLostError

from celery.exceptions import WorkerShutdown, WorkerTerminate, reraise
from celery.utils.log import get_logger
from celery.utils.saferepr import saferepr
from celery.utils.timer2 import Timer

__all__ = ("BasePool", "apply_target")

logger = get_logger("celery.pool")


Waiting = list[tuple[Callable[[], Any], Callable[[str], Any]]]


class _Accepting(threading.local):
    """What waits in this thread for the end of the call that is being accepted."""

    waiting: Waiting | None = None


_accepting = _Accepting()


def put_off(done: Callable[[], Any], lost: Callable[[str], Any]) -> bool:
    """Where a pool is telling that it has accepted a call (`accepting`): have ``done`` called when
    the call is over, or ``lost``, with the reason, if its process is lost before. False elsewhere.
    """
    if _accepting.waiting is None:
        return False
    _accepting.waiting.append((done, lost))
    return True


@contextmanager
def accepting() -> Iterator[Waiting]:
    """While ``accept_callback`` is called: what has come by `put_off`, which is its user's."""
    waiting: Waiting = []
    _accepting.waiting = waiting
    try:
        yield waiting
    finally:
        _accepting.waiting = None


def apply_target(
    target: Callable[..., Any],
    args: Any = (),
    kwargs: Any = None,
    callback: Callable[[Any], Any] | None = None,
    accept_callback: Callable[[int, float], Any] | None = None,
    pid: int | None = None,
    getpid: Callable[[], int] = os.getpid,
    propagate: Any = (),
    monotonic: Callable[[], float] = monotonic,
    **_: Any,
) -> None:
    """Call a function here and now.

    ``accept_callback`` is called before, with the process and the time, ``callback`` after it,
    with what it has returned. Exceptions are raised, and so is what ends the worker, or is named
    by ``propagate``; what else is no ``Exception`` is given to ``callback``, as the
    ``ExceptionInfo`` of a `WorkerLostError`.
    """
    with accepting() as waiting:
        if accept_callback:
            accept_callback(pid or getpid(), monotonic())
    try:
        returned = target(*args, **(kwargs or {}))
    except (Exception, WorkerShutdown, WorkerTerminate) as error:
        if isinstance(error, Exception):
            _call_done(waiting)
        raise
    except propagate:
        raise
    except BaseException as error:
        try:
            reraise(WorkerLostError, WorkerLostError(repr(error)), sys.exc_info()[2])
        except WorkerLostError:
            returned = ExceptionInfo()
    if callback:
        callback(returned)
    _call_done(waiting)


def _call_done(waiting: Waiting) -> None:
    for done, _ in waiting:
        done()


class BasePool:
    """A kind of pool: which of the engine's it runs on, and what the banner calls it.

    ``instead`` says why a user who asked for this kind gets another one.

    Subclasses say in `on_apply` how a call is done, and in ``on_start``, ``on_stop``,
    ``on_terminate`` and ``on_close`` what they do at those times. A worker starts its pool before
    it takes the first task, and stops it when nothing runs any more.
    """

    RUN, CLOSE, TERMINATE = 0x1, 0x2, 0x3

    Timer: Any = Timer
    name: ClassVar[str] = ""
    engine_pool: ClassVar[str] = "threads"
    instead: ClassVar[str] = ""
    is_green: bool = False
    signal_safe: bool = True
    uses_semaphore: bool = False
    task_join_will_block: bool = True
    body_can_be_buffer: bool = False
    own_process: ClassVar[bool] = False
    """Whether its users expect ``worker_process_init`` and its counterpart."""

    _state: int | None = None
    _pool: Any = None
    _does_debug = True
    _resize: Callable[[int], Any] | None = None
    """Gives the worker that it belongs to more slots, or less."""
    _waiting: Callable[[], int] | None = None
    """How many tasks wait in the queues of that worker."""

    def __init__(
        self,
        limit: int | None = None,
        putlocks: bool = True,
        forking_enable: bool = True,
        callbacks_propagate: Any = (),
        app: Any = None,
        **options: Any,
    ) -> None:
        self.limit = limit
        self.putlocks = putlocks
        self.forking_enable = forking_enable
        self.callbacks_propagate = callbacks_propagate
        self.app = app
        self.options = options
        self._does_debug = logger.isEnabledFor(10)

    # -- for subclasses ----------------------------------------------------------------------

    def on_start(self) -> None:
        """When it is started."""

    def did_start_ok(self) -> bool:
        """Whether what `on_start` has begun is there."""
        return True

    def flush(self) -> None:
        """Have done what waits to be done."""

    def on_stop(self) -> None:
        """When it is to finish what runs, and stop."""

    def on_terminate(self) -> None:
        """When it is to stop, whatever runs."""

    def on_close(self) -> None:
        """When it gets no more to do."""

    def on_apply(self, *args: Any, **kwargs: Any) -> Any:
        """Do a call, given as to `apply_target`. This one does nothing."""

    def prepare_calls(self) -> None:
        """Calls will come: do what is to be done for them before the worker has threads."""

    def on_soft_timeout(self, job: Any) -> None:
        """A call has run for longer than its soft limit."""

    def on_hard_timeout(self, job: Any) -> None:
        """A call has run for longer than its hard limit."""

    def maintain_pool(self, *args: Any, **kwargs: Any) -> None:
        """Replace what has ended. The engine sees to its own."""

    def register_with_event_loop(self, loop: Any) -> None:
        """Called when the worker's event loop is about to begin, where there is one."""

    def terminate_job(self, pid: int, signal: Any = None) -> None:
        """End what runs in a process. Raises ``NotImplementedError`` where it cannot."""
        raise NotImplementedError(f"{type(self).__name__} cannot end what runs")

    def restart(self) -> None:
        """Begin anew. Raises ``NotImplementedError`` where it cannot."""
        raise NotImplementedError(f"{type(self).__name__} cannot be restarted")

    # -- its life ----------------------------------------------------------------------------

    def start(self) -> None:
        self.on_start()
        self._state = self.RUN

    def stop(self) -> None:
        self.on_stop()
        self._state = self.TERMINATE

    def terminate(self) -> None:
        self._state = self.TERMINATE
        self.on_terminate()

    def close(self) -> None:
        self._state = self.CLOSE
        self.on_close()

    @property
    def active(self) -> bool:
        """Whether it was started and not stopped."""
        return self._state == self.RUN

    # -- its work ----------------------------------------------------------------------------

    def apply_async(
        self, target: Callable[..., Any], args: Any = None, kwargs: Any = None, **options: Any
    ) -> Any:
        """Have a function called; what `on_apply` gives."""
        if self._does_debug:
            logger.debug(
                "TaskPool: Apply %s (args:%s kwargs:%s)", target, saferepr(args), saferepr(kwargs)
            )
        return self.on_apply(
            target,
            args or [],
            kwargs or {},
            waitforslot=self.putlocks,
            callbacks_propagate=self.callbacks_propagate,
            **options,
        )

    def grow(self, n: int = 1) -> None:
        """Have so many slots more. Raises ``ValueError`` where their number is fixed, and while
        it belongs to no worker that runs."""
        self._resized(n)

    def shrink(self, n: int = 1) -> None:
        """Have so many slots less: what runs in them is finished first. Like `grow`."""
        self._resized(-n)

    def _resized(self, by: int) -> None:
        if self._resize is None:
            raise ValueError(f"{type(self).__name__} belongs to no worker: its size is its limit")
        self._resize(by)

    def backlog(self) -> int:
        """How many tasks wait for a slot in the queues of the worker that it belongs to."""
        return 0 if self._waiting is None else self._waiting()

    @property
    def num_processes(self) -> int | None:
        """How many tasks run at once."""
        return self.limit

    def _get_info(self) -> dict[str, Any]:
        return {
            "implementation": f"{type(self).__module__}:{type(self).__name__}",
            "max-concurrency": self.limit,
        }

    @property
    def info(self) -> dict[str, Any]:
        """What the worker's statistics tell of it."""
        return self._get_info()
