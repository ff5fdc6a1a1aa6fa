"""What becomes of others when a task has ended: error callbacks, the tasks that were to follow it,
the chord that it is a part of.

The worker compiles canvases to workflows of the engine and needs none of this; programs that call
``mark_as_failure`` themselves do, and so do backends that count the parts of a chord.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from kombu.utils.encoding import bytes_to_str
from kombu.utils.functional import maybe_list
from kombu.utils.uuid import uuid

from celery import states
from celery.app.context import Context
from celery.canvas import group
from celery.exceptions import ChordError, NotRegistered
from celery.result import allow_join_result
from celery.utils.log import get_logger

from .arity import takes_new_style
from .records import Records

__all__ = ("Chords", "CountedChords")

logger = get_logger("celery.backends.base")


def _create_chord_error_with_cause(
    message: Any, original_exc: Any = None, *, cause: Any = None
) -> ChordError:
    error = ChordError(message)
    origin = original_exc if cause is None else cause
    if isinstance(origin, BaseException):
        error.__cause__ = origin
    return error


def _create_fake_task_request(
    task_id: str, errbacks: Any = None, task_name: str = "unknown", **extra: Any
) -> Context:
    """The request of a task that never ran, for its error callbacks."""
    fields: dict[str, Any] = {
        "id": task_id,
        "errbacks": errbacks or [],
        "task": task_name,
        "delivery_info": {},
    }
    return Context({**fields, **extra})


class Chords(Records):
    """Tells those who depend on a task that it has failed."""

    def _signature(self, stored: Any) -> Any:
        """A signature from what is stored of one."""
        raise NotImplementedError

    def _group(self, signatures: Any) -> Any:
        """Signatures as a group."""
        raise NotImplementedError

    def _saved_parts(self, group_id: str) -> Any:
        """The results of a chord's header, as they were saved."""
        raise NotImplementedError

    def _call_task_errbacks(self, request: Any, exc: BaseException, traceback: Any) -> None:
        """Call the error callbacks of a task: those that take the exception here and now, the
        others, which take the task's id, as tasks."""
        old = []
        for each in maybe_list(request.errbacks) or []:
            errback = self._signature(each)
            if not self._takes_exception(errback):
                old.append(errback)
                continue
            try:
                errback(request, exc, traceback)
            except Exception:
                logger.exception("Error callback %s of task %s failed", errback.task, request.id)
        if not old:
            return
        info = request.delivery_info
        eager = isinstance(info, Mapping) and info.get("is_eager", False)
        behind = self._group(old)
        start = behind.apply if self.app.conf.task_always_eager or eager else behind.apply_async
        start((request.id,), parent_id=request.id, root_id=request.root_id or request.id)

    def _takes_exception(self, errback: Any) -> bool:
        try:
            task = self.app.tasks[errback.task]
        except (NotRegistered, KeyError):
            return False
        return takes_new_style(task.run, errback.args or (), errback.kwargs or {}, errback)

    def _fail_chain(
        self,
        chain: Any,
        exc: BaseException,
        traceback: Any = None,
        store_result: bool = True,
        state: str = states.FAILURE,
    ) -> None:
        """Let the tasks that were to follow fail with the one before them."""
        for each in chain or ():
            following = self._signature(each)
            if following.get("subtask_type") == "chord":
                following = following["kwargs"].get("body")
                if following is None:
                    continue
                following = self._signature(following)
            options = following.get("options") or {}
            task_id = options.get("task_id")
            if task_id is None:
                continue
            is_part = bool(options.get("chord"))
            ended = is_part and self.get_state(task_id) in self.READY_STATES
            if store_result:
                self.store_result(task_id, exc, state, traceback=traceback)
            if is_part and not ended:
                request = _create_fake_task_request(
                    task_id,
                    task_name=following.get("task"),
                    chord=options["chord"],
                    group=options.get("group_id"),
                    group_index=options.get("group_index"),
                )
                self.on_chord_part_return(request, state, exc)

    def chord_error_from_stack(self, callback: Any, exc: Any = None) -> Any:
        """Let the body of a chord fail, since a part of it did."""
        failure: Any = sys.exc_info()[1] if exc is None else exc
        try:
            backend = self.app._tasks[callback.task].backend
        except (NotRegistered, KeyError):
            backend = self
        chain = callback.options.get("chain")
        if isinstance(callback, group):
            answer = self._handle_group_chord_error(
                group_callback=callback, backend=backend, exc=failure
            )
        else:
            if callback.id is None:
                callback.options["task_id"] = callback.id = uuid()
            request = Context({**callback, "id": callback.id, "delivery_info": {}})
            request.errbacks = callback.options.get("link_error") or []
            try:
                self._call_task_errbacks(request, failure, None)
            except Exception as error:
                failure = error
            answer = backend.fail_from_current_stack(callback.id, exc=failure)
        if isinstance(chain, (list, tuple)):
            self._fail_chain(chain, failure)
        return answer

    def _handle_group_chord_error(self, group_callback: Any, backend: Any, exc: Any = None) -> Any:
        """Let every task of a group fail that was the body of a chord."""
        failure = getattr(exc, "__cause__", None) or exc
        try:
            frozen = group_callback.freeze()
            of_group = maybe_list(group_callback.options.get("link_error")) or []
            own = {
                one.options.get("task_id"): maybe_list(one.options.get("link_error")) or []
                for one in group_callback.tasks
                if one.get("subtask_type") != "chord"
            }
            for result in frozen.results:
                mine = own.get(result.id, [])
                errbacks = [*mine, *(each for each in of_group if each not in mine)]
                self._fail_member(backend, result, errbacks, failure)
            backend.mark_as_failure(frozen.id, failure)
            frozen.revoke()
            return None
        except Exception as error:
            logger.exception("Failed to handle the error of a chord whose body is a group")
            return backend.fail_from_current_stack(group_callback.id, exc=error)

    def _fail_member(self, backend: Any, result: Any, errbacks: list[Any], exc: Any) -> None:
        try:
            name = getattr(result, "task", None) or "unknown"
            backend._call_task_errbacks(
                _create_fake_task_request(result.id, errbacks, name), exc, None
            )
            backend.fail_from_current_stack(result.id, exc=exc)
        except Exception:
            logger.exception("Failed to handle chord error for task %s", result.id)

    # -- chords of other makers --------------------------------------------------------------

    def ensure_chords_allowed(self) -> None:
        """Raises ``NotImplementedError`` where chords cannot work."""

    def add_to_chord(self, chord_id: str, result: Any) -> Any:
        raise NotImplementedError("Backend does not support add_to_chord")

    def set_chord_size(self, group_id: str, chord_size: int) -> Any:
        """How many parts a chord has; for backends that count them."""

    def on_chord_part_return(self, request: Any, state: Any, result: Any, **kwargs: Any) -> Any:
        """A part of a chord has ended; for backends that count them."""

    def apply_chord(self, header_result_args: Any, body: Any, **kwargs: Any) -> Any:
        """Watch over a chord that was not applied as one workflow: by a task that looks."""
        self.ensure_chords_allowed()
        return self.fallback_chord_unlock(self.app.GroupResult(*header_result_args), body, **kwargs)

    def fallback_chord_unlock(
        self, header_result: Any, body: Any, countdown: float = 1, **kwargs: Any
    ) -> Any:
        """Send ``celery.chord_unlock``, which looks again until the parts have ended."""
        task_type = self.app._tasks.get(body.task)
        routed = {"queue": body.options.get("queue", getattr(task_type, "queue", None))}
        if routed["queue"] is None:
            routed = {**self.app.amqp.router.route(dict(body.options), body.name)}
            routed["queue"] = getattr(routed.get("queue"), "name", routed.get("queue"))
        unlock = self.app.tasks["celery.chord_unlock"]
        kwargs["result"] = [each.as_tuple() for each in header_result]
        kwargs.pop("countdown", None)
        return unlock.apply_async(
            (header_result.id, body), kwargs, countdown=countdown, queue=routed["queue"]
        )


class CountedChords(Chords):
    """Chords of which a backend counts the parts that have ended: the last one calls the body."""

    implements_incr = False
    """Whether it can count the parts of a chord."""
    expires: Any
    prepare_expires: Any
    incr: Any
    expire: Any
    delete: Any
    get_key_for_chord: Any

    @property
    def chord_expires(self) -> Any:
        """Seconds for which what is counted of a chord is kept; 0 or ``None`` is for ever."""
        configured = self.app.conf.get("result_chord_expires", None)
        return self.expires if configured is None else self.prepare_expires(configured)

    def _apply_chord_incr(self, header_result_args: Any, body: Any, **kwargs: Any) -> Any:
        self.ensure_chords_allowed()
        self.app.GroupResult(*header_result_args).save(backend=self)

    def on_chord_part_return(self, request: Any, state: Any, result: Any, **kwargs: Any) -> Any:
        if not self.implements_incr or not request.group:
            return
        key = self.get_key_for_chord(request.group)
        callback = self._signature(request.chord)
        try:
            parts = self._saved_parts(request.group)
        except Exception as error:
            self._lost_chord(callback, request, error)
            return
        if parts is None:
            self._lost_chord(callback, request, None)
            return
        size = callback.get("chord_size")
        if size is None:
            size = len(parts)
        count = self.incr(key)
        if count < size:
            if self.chord_expires:
                self.expire(key, self.chord_expires)
            return
        if count > size:
            logger.warning(
                "Chord counter incremented too many times for %r", bytes_to_str(request.group)
            )
            return
        try:
            self._run_body(callback, parts)
        finally:
            parts.delete()
            self.delete(key)

    def _lost_chord(self, callback: Any, request: Any, error: Exception | None) -> None:
        reason = (
            f"Cannot restore group: {error!r}"
            if error
            else f"GroupResult {request.group} no longer exists"
        )
        self.chord_error_from_stack(callback, _create_chord_error_with_cause(reason, error))

    def _run_body(self, callback: Any, parts: Any) -> None:
        join = parts.join_native if parts.supports_native_join else parts.join
        try:
            with allow_join_result():
                values = join(timeout=self.app.conf.result_chord_join_timeout, propagate=True)
        except Exception as error:
            culprit = next(parts._failed_join_report(), None)
            reason = repr(error) if culprit is None else f"Dependency {culprit.id} raised {error!r}"
            logger.exception("Chord %r raised: %r", parts.id, error)
            self.chord_error_from_stack(callback, _create_chord_error_with_cause(reason, error))
            return
        try:
            self.app.amqp._retry_publish(callback.delay, values)
        except Exception as error:
            logger.exception("Chord %r raised: %r", parts.id, error)
            self.chord_error_from_stack(callback, ChordError(f"Callback error: {error!r}"))
