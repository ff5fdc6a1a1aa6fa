"""For tests that talk to a worker: wait for tasks to get somewhere, and ask what it holds."""

from __future__ import annotations

import builtins
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, TextIO

from kombu.exceptions import OperationalError
from kombu.utils.functional import retry_over_time

from celery import states
from celery.exceptions import TimeoutError
from celery.utils.text import truncate
from celery.utils.time import humanize_seconds as _humanize_seconds

if TYPE_CHECKING:
    from celery.result import AsyncResult

__all__ = ("Manager", "ManagerMixin", "Sentinel")

OSTimeout = builtins.TimeoutError  # of sockets; not the one that results raise

E_STILL_WAITING = "Still waiting for {0}.  Trying again {when}: {exc!r}"

humanize_seconds: Callable[..., str] = partial(_humanize_seconds, microseconds=True)


class Sentinel(Exception):
    """Says that a condition does not hold yet."""


class ManagerMixin:
    """What a `Manager` does; a subclass has ``app`` and calls `_init_manager`."""

    app: Any
    no_join: bool
    stdout: TextIO
    stderr: TextIO

    def _init_manager(
        self,
        block_timeout: float = 30 * 60.0,
        no_join: bool = False,
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
    ) -> None:
        self.stdout = sys.stdout if stdout is None else stdout
        self.stderr = sys.stderr if stderr is None else stderr
        self.connerrors: tuple[type[Exception], ...] = (OperationalError, OSError)
        self.block_timeout = block_timeout
        self.no_join = no_join

    def remark(self, s: str, sep: str = "-") -> None:
        """Print a line that stands out."""
        self.stdout.write(f"{sep}{s}\n")

    def warn(self, s: str) -> None:
        """Print a line to the error output."""
        self.stderr.write(f"{s}\n")

    # -- waiting -----------------------------------------------------------------------------

    def retry_over_time(self, *args: Any, **kwargs: Any) -> Any:
        return retry_over_time(*args, **kwargs)

    def wait_for(
        self,
        fun: Callable[..., Any],
        catch: Any,
        desc: str = "thing",
        args: Any = (),
        kwargs: Any = None,
        errback: Callable[..., Any] | None = None,
        max_retries: int | None = 10,
        interval_start: float = 0.1,
        interval_step: float = 0.5,
        interval_max: float = 5.0,
        emit_warning: bool = False,
        **options: Any,
    ) -> Any:
        """Call ``fun`` until it does not raise one of ``catch``; gives what it returns.

        After ``max_retries`` more attempts its exception is raised.
        """

        def on_error(exc: BaseException, intervals: Any, retries: int) -> Any:
            interval = next(intervals)
            if emit_warning:
                self.warn(
                    E_STILL_WAITING.format(desc, when=humanize_seconds(interval, "in "), exc=exc)
                )
            if errback is not None:
                errback(exc, interval, retries)
            return interval

        return self.retry_over_time(
            fun,
            catch,
            args=args,
            kwargs=kwargs or {},
            errback=on_error,
            max_retries=max_retries,
            interval_start=interval_start,
            interval_step=interval_step,
            interval_max=interval_max,
            **options,
        )

    def ensure_not_for_a_while(
        self,
        fun: Callable[..., Any],
        catch: Any,
        desc: str = "thing",
        max_retries: int = 20,
        interval_start: float = 0.1,
        interval_step: float = 0.02,
        interval_max: float = 1.0,
        emit_warning: bool = False,
        **options: Any,
    ) -> None:
        """Make sure that ``fun`` goes on raising one of ``catch``: that something does not happen.

        Raises ``AssertionError`` as soon as it returns.
        """
        try:
            self.wait_for(
                fun,
                catch,
                desc=desc,
                max_retries=max_retries,
                interval_start=interval_start,
                interval_step=interval_step,
                interval_max=interval_max,
                emit_warning=emit_warning,
                **options,
            )
        except catch:
            return
        raise AssertionError(f"Should not have happened: {desc}")

    def true_or_raise(self, fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """What ``fun`` gives; raises `Sentinel` if that is false."""
        result = fun(*args, **kwargs)
        if not result:
            raise Sentinel
        return result

    # -- results -----------------------------------------------------------------------------

    def missing_results(self, r: Iterable[AsyncResult]) -> list[str]:
        """Ids of the results that are not there yet."""
        return [result.id for result in r if result.id not in result.backend._cache]

    def join(self, r: Any, propagate: bool = False, max_retries: int = 10, **kw: Any) -> Any:
        """What all of the results are; asks again where the answer takes too long."""
        if self.no_join:
            return None
        results = r if hasattr(r, "results") else self.app.ResultSet([r])
        received: list[Any] = []

        def on_result(task_id: str, value: Any) -> None:
            received.append(task_id)

        for attempt in range(max_retries) if max_retries else count(0):
            received[:] = []
            try:
                return results.get(callback=on_result, propagate=propagate, **kw)
            except (TimeoutError, OSTimeout) as error:
                waiting = self.missing_results(results)
                self.remark(
                    f"Still waiting for {len(waiting)}/{len(results)}: "
                    f"[{truncate(', '.join(waiting))}]: {error!r}",
                    "!",
                )
            except self.connerrors as error:
                self.remark(f"join: connection lost: {error!r} ({attempt})", "!")
        raise TimeoutError("Timed out while waiting for results")

    # -- workers -----------------------------------------------------------------------------

    def inspect(self, timeout: float = 3.0) -> Any:
        return self.app.control.inspect(timeout=timeout)

    def query_tasks(self, ids: Iterable[str], timeout: float = 0.5) -> Iterable[tuple[str, Any]]:
        """Per worker, what it holds of these tasks."""
        yield from (self.inspect(timeout).query_task(*ids) or {}).items()

    def query_task_states(
        self, ids: Iterable[str], timeout: float = 0.5
    ) -> defaultdict[str, set[str]]:
        """The ids by state: ``reserved``, ``active`` and so on."""
        found: defaultdict[str, set[str]] = defaultdict(set)
        for _, reply in self.query_tasks(ids, timeout=timeout):
            for task_id, (state, _) in reply.items():
                found[state].add(task_id)
        return found

    def assert_accepted(
        self,
        ids: Iterable[str],
        interval: float = 0.5,
        desc: str = "waiting for tasks to be accepted",
        **policy: Any,
    ) -> Any:
        """Wait until workers run these tasks, or have run them."""
        return self.assert_task_worker_state(
            self.is_accepted, ids, interval=interval, desc=desc, **policy
        )

    def assert_received(
        self,
        ids: Iterable[str],
        interval: float = 0.5,
        desc: str = "waiting for tasks to be received",
        **policy: Any,
    ) -> Any:
        """Wait until workers hold these tasks."""
        return self.assert_task_worker_state(
            self.is_received, ids, interval=interval, desc=desc, **policy
        )

    def assert_result_tasks_in_progress_or_completed(
        self,
        async_results: Iterable[AsyncResult],
        interval: float = 0.5,
        desc: str = "waiting for tasks to be started or completed",
        **policy: Any,
    ) -> Any:
        """Wait until the results say that their tasks have been started."""
        return self.assert_task_state_from_result(
            self.is_result_task_in_progress, async_results, interval=interval, desc=desc, **policy
        )

    def assert_task_state_from_result(
        self,
        fun: Callable[..., Any],
        results: Iterable[AsyncResult],
        interval: float = 0.5,
        **policy: Any,
    ) -> Any:
        return self.wait_for(
            partial(self.true_or_raise, fun, results, timeout=interval), (Sentinel,), **policy
        )

    def assert_task_worker_state(
        self, fun: Callable[..., Any], ids: Iterable[str], interval: float = 0.5, **policy: Any
    ) -> Any:
        return self.wait_for(
            partial(self.true_or_raise, fun, ids, timeout=interval), (Sentinel,), **policy
        )

    @staticmethod
    def is_result_task_in_progress(results: Iterable[AsyncResult], **kwargs: Any) -> bool:
        """Whether every task has been started."""
        return all(result.state in (states.STARTED, states.SUCCESS) for result in results)

    def is_accepted(self, ids: Iterable[str], **kwargs: Any) -> bool:
        return self._ids_matches_state(("active",), ids, **kwargs)

    def is_received(self, ids: Iterable[str], **kwargs: Any) -> bool:
        return self._ids_matches_state(("reserved", "active", "ready"), ids, **kwargs)

    def _ids_matches_state(
        self, expected_states: Iterable[str], ids: Iterable[str], timeout: float = 0.5
    ) -> bool:
        found = self.query_task_states(ids, timeout=timeout)
        return all(any(each in found[state] for state in expected_states) for each in ids)

    def wait_until_idle(self) -> None:
        """Take out of the queues what nobody has started."""
        while self.app.control.purge():
            pass


class Manager(ManagerMixin):
    """`ManagerMixin` for an app."""

    def __init__(self, app: Any, **kwargs: Any) -> None:
        self.app = app
        self._init_manager(**kwargs)
