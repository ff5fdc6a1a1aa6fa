"""One delivery to one settlement: every way in which a delivery can end."""

import datetime
import gc
import logging
import threading
import weakref
from collections.abc import Callable
from typing import Any, NoReturn

import msgspec
import pytest

from taskmq import App, Config, JobState, Retry, Task, current_task
from taskmq.codec import Payload
from taskmq.envelope import Dependency, seal
from taskmq.errors import JobCancelled, RejectJob, ReleaseJob, RetryJob
from taskmq.events import CollectingSink
from taskmq.executor import Executor, park_delay
from taskmq.testing import FakeClock
from taskmq.transport import (
    Ack,
    DeadLetter,
    Defer,
    Delivery,
    Expire,
    RetryLater,
    Revoke,
    Settlement,
)

Body = Callable[..., Any]


class Bench:
    """An app with one task, and deliveries made by hand."""

    def __init__(self, body: Body, **policy: Any) -> None:
        self.clock = FakeClock()
        self.sink = CollectingSink()
        self.app = App(Config(), clock=self.clock)
        self.app.add_sink(self.sink)
        self.task: Task[..., Any]
        if body is Hooked:
            self.task = self.app.register(Hooked)
        else:
            register: Any = self.app.task(name="t", **policy)
            self.task = register(body)
        self.executor = Executor(self.app, worker="w1")

    def delivery(self, *args: Any, data: bytes | None = None, **options: Any) -> Delivery:
        attempt = options.pop("attempt", 1)
        inputs, changes = options.pop("inputs", None), options.pop("envelope", {})
        envelope = self.app.seal(self.task.call(*args).options(**options), self.clock.now())
        changed = msgspec.structs.replace(envelope.envelope, **changes)
        return Delivery(
            job_id=changed.id,
            queue=changed.queue,
            priority=0,
            envelope=seal(changed, 10**6).data if data is None else data,
            token=1,
            attempt=attempt,
            deliveries=1,
            reclaims=0,
            yields=0,
            lease_until=0.0,
            inputs=inputs,
        )

    def run(self, *args: Any, **options: Any) -> Settlement:
        return self.executor.execute(self.delivery(*args, **options)).settlement

    def events(self) -> list[str]:
        return [str(type(event).__struct_config__.tag) for event in self.sink.events]


def fail(error: BaseException = ValueError("no")) -> NoReturn:  # noqa: B008  # never changed
    raise error


# -- how a task ends -----------------------------------------------------------------------------


class Large:
    """What a task has in a local variable."""


def test_a_failure_lets_go_of_its_frames_without_the_garbage_collector() -> None:
    """Also where the task ties error and frame to a ring, and an error is behind the error."""
    seen: list[weakref.ref[Large]] = []

    def tie() -> None:
        large = Large()
        seen.append(weakref.ref(large))
        try:
            fail(KeyError("inner"))
        except KeyError as error:
            kept = error
            raise RuntimeError(f"{large}, {kept!r}") from error

    bench = Bench(tie, retry=Retry(max_attempts=2))
    gc.disable()
    try:
        settlement = bench.run()
        assert isinstance(settlement, RetryLater)
        assert "in tie" in settlement.failure.traceback
        assert [large() for large in seen] == [None]
    finally:
        gc.enable()


def test_a_return_is_an_ack_with_its_value() -> None:
    bench = Bench(lambda x: {"doubled": 2 * x})
    settlement = bench.run(4)
    assert isinstance(settlement, Ack)
    assert settlement.result == Payload("json", b'{"doubled":8}')
    assert bench.events() == ["task.started", "task.succeeded"]


def test_a_value_is_encoded_only_if_somebody_wants_it() -> None:
    bench = Bench(lambda: object())
    settlement = bench.run(store_result=False)
    assert isinstance(settlement, Ack)
    assert settlement.result is None
    fed = Bench(lambda: 5).run(store_result=False, envelope={"feeds": True})
    assert isinstance(fed, Ack)
    assert fed.result == Payload("json", b"5")


def test_none_is_a_value_too() -> None:
    settlement = Bench(lambda: None).run()
    assert isinstance(settlement, Ack)
    assert settlement.result == Payload("json", b"null")


def test_a_value_that_has_no_wire_form_is_a_dead_letter_at_once() -> None:
    bench = Bench(lambda: object(), retry=Retry())
    settlement = bench.run()
    assert isinstance(settlement, DeadLetter)
    assert settlement.reason == "unencodable_result"
    assert "cannot encode a builtins.object" in settlement.failure.message


def test_the_time_in_the_task_is_measured() -> None:
    bench = Bench(lambda: bench.clock.advance(2.5))
    assert bench.executor.execute(bench.delivery()).runtime == 2.5


def test_a_coroutine_function_runs_in_a_loop_of_its_own() -> None:
    async def body(x: int) -> int:
        return x + current_task().attempt

    settlement = Bench(body).run(4)
    assert isinstance(settlement, Ack)
    assert settlement.result == Payload("json", b"5")


def test_an_exception_without_a_policy_is_a_dead_letter() -> None:
    bench = Bench(fail)
    settlement = bench.run()
    assert isinstance(settlement, DeadLetter)
    assert settlement.reason == "error"
    assert settlement.failure.type == "builtins.ValueError"
    assert "in fail" in settlement.failure.traceback
    assert "taskmq/executor.py" not in settlement.failure.traceback
    assert bench.events() == ["task.started", "task.failed"]


def test_an_exception_of_the_whitelist_is_retried_up_to_the_ceiling() -> None:
    bench = Bench(fail, retry=Retry(max_attempts=2, base=4, jitter=False))
    first, second = bench.run(attempt=1), bench.run(attempt=2)
    assert isinstance(first, RetryLater)
    assert first.delay == 4
    assert isinstance(second, DeadLetter)
    assert second.reason == "max_attempts"
    assert bench.events() == [
        "task.started",
        "task.failed",
        "task.retrying",
        "task.started",
        "task.failed",
    ]


@pytest.mark.parametrize("policy", [{}, {"retry": Retry(max_attempts=9)}])
def test_a_job_has_a_ceiling_of_its_own(policy: dict[str, Any]) -> None:
    """The rest is that of its task's policy, or of the default one."""
    bench = Bench(fail, **policy)
    ends = [bench.run(attempt=attempt, max_attempts=2) for attempt in (1, 2)]
    assert [type(end) for end in ends] == [RetryLater, DeadLetter]
    assert type(bench.run(max_attempts=1)) is DeadLetter
    asking = Bench(lambda: fail(RetryJob("again")), **policy)
    assert type(asking.run(attempt=2, max_attempts=2)) is DeadLetter


def test_an_exception_outside_of_the_whitelist_is_a_dead_letter_at_once() -> None:
    settlement = Bench(fail, retry=Retry(retry_on=(OSError,))).run()
    assert isinstance(settlement, DeadLetter)
    assert settlement.reason == "error"


@pytest.mark.parametrize("error", [ValueError("no"), RetryJob("again")])
def test_on_completion_is_never_retried(error: BaseException) -> None:
    settlement = Bench(lambda: fail(error), retry=Retry(), ack="on_completion").run()
    assert isinstance(settlement, DeadLetter)


def test_system_exit_of_a_task_fails_the_task_alone() -> None:
    settlement = Bench(lambda: fail(SystemExit(3))).run()
    assert isinstance(settlement, DeadLetter)
    assert settlement.failure.type == "builtins.SystemExit"


def test_an_interrupt_belongs_to_the_terminal_and_leaves_the_job_unsettled() -> None:
    bench = Bench(lambda: fail(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        bench.run()
    assert bench.executor.running == {}
    with pytest.raises(Exception, match="no task is running"):
        current_task()


# -- control signals -----------------------------------------------------------------------------


def test_a_task_asks_for_a_retry_and_its_policy_sets_the_delay() -> None:
    bench = Bench(
        lambda: fail(current_task().retry("busy")),
        retry=Retry(base=3, jitter=False, max_attempts=2),
    )
    first, second = bench.run(attempt=1), bench.run(attempt=2)
    assert isinstance(first, RetryLater)
    assert (first.delay, first.failure.message) == (3, "busy")
    assert isinstance(second, DeadLetter)
    assert second.reason == "max_attempts"


def test_what_is_left_of_a_job_that_asked_once_too_often_is_the_error_it_named() -> None:
    bench = Bench(lambda: fail(current_task().retry(error=OSError("disk"))))
    first, last = bench.run(attempt=1), bench.run(attempt=3)
    assert isinstance(first, RetryLater)
    assert isinstance(last, DeadLetter)
    assert last.reason == "max_attempts"
    assert first.failure.type == last.failure.type == "builtins.OSError"
    assert last.failure.message == "disk"


def test_a_delay_of_its_own_wins_but_not_over_the_ceiling() -> None:
    bench = Bench(lambda: fail(RetryJob("busy", delay=7)))  # without a policy: the default one
    assert [type(bench.run(attempt=n)) for n in (1, 2, 3)] == [RetryLater, RetryLater, DeadLetter]
    settlement = bench.run(attempt=2)
    assert isinstance(settlement, RetryLater)
    assert settlement.delay == 7


def test_a_caller_that_counts_itself_has_no_ceiling() -> None:
    bench = Bench(lambda: fail(RetryJob(unlimited=True)), ack="on_completion")
    settlement = bench.run(attempt=1000)
    assert isinstance(settlement, RetryLater)
    assert settlement.delay == 0


def test_a_retry_tells_the_error_behind_it_and_may_bring_a_new_envelope() -> None:
    bench = Bench(lambda: None)
    replacement = bench.app.seal(bench.task.call(), 0.0)
    bench.task.body = lambda: fail(RetryJob(error=OSError("disk"), envelope=replacement))
    settlement = bench.run()
    assert isinstance(settlement, RetryLater)
    assert settlement.failure.type == "builtins.OSError"
    assert settlement.envelope is replacement


def test_release_gives_the_job_back_and_costs_nothing() -> None:
    bench = Bench(lambda: fail(ReleaseJob(delay=5)))
    settlement = bench.run()
    assert isinstance(settlement, Defer)
    assert (settlement.delay, settlement.park) == (5, None)
    assert bench.events() == ["task.started", "task.deferred"]


@pytest.mark.parametrize(
    ("signal", "reason", "kind"),
    [
        (RejectJob("spam"), "spam", "taskmq.errors.RejectJob"),
        (RejectJob(error=ValueError("x")), "rejected", "builtins.ValueError"),
    ],
)
def test_reject_is_a_dead_letter_now(signal: RejectJob, reason: str, kind: str) -> None:
    settlement = Bench(lambda: fail(signal), retry=Retry()).run()
    assert isinstance(settlement, DeadLetter)
    assert (settlement.reason, settlement.failure.type) == (reason, kind)


def test_a_cancelled_task_is_revoked() -> None:
    bench = Bench(lambda: fail(JobCancelled("x")))
    assert isinstance(bench.run(), Revoke)
    assert bench.events() == ["task.started", "task.dropped"]


def test_a_task_cannot_swallow_a_signal_by_accident() -> None:
    def body() -> str:
        try:
            raise current_task().retry("busy")
        except Exception:
            return "swallowed"

    assert isinstance(Bench(body).run(), RetryLater)


# -- what cannot run here is parked, never lost --------------------------------------------------


def parked(settlement: Settlement) -> str | None:
    assert isinstance(settlement, Defer)
    assert (settlement.delay, settlement.park_ttl) == (1.0, Config().park_ttl)
    return settlement.park


def test_an_unknown_task_is_parked() -> None:
    bench = Bench(lambda: None)
    assert parked(bench.run(envelope={"task": "os.system"})) == "unknown_task"
    assert bench.events() == ["task.deferred"]


@pytest.mark.parametrize("args", [[], [1, 2, 3]])
def test_arguments_that_do_not_fit_are_parked(args: list[int]) -> None:
    bench = Bench(lambda x, y: x)
    changed = {"args": msgspec.Raw(msgspec.json.encode(args))}
    assert parked(bench.run(1, 2, envelope=changed)) == "arguments_do_not_fit"


def test_a_type_error_of_the_body_is_its_own() -> None:
    for body in (lambda: len(5), lambda: (lambda x: x)()):  # type: ignore[arg-type, call-arg]  # the errors under test
        assert isinstance(Bench(body).run(), DeadLetter)


def test_a_type_error_that_comes_straight_from_c_is_looked_at_twice() -> None:
    assert isinstance(Bench(len).run(5), DeadLetter)  # it fits, and fails


@pytest.mark.parametrize(
    "changes",
    [
        {"args": msgspec.Raw(b"{}")},
        {"kwargs": msgspec.Raw(b"[]")},
        {"codec": "yaml"},
        {"codec": "json+types", "args": msgspec.Raw(b'[{"$type":"Money","value":1}]')},
        {"args": msgspec.Raw(b'["not a date"]')},
    ],
)
def test_arguments_that_do_not_decode_are_parked(changes: dict[str, Any]) -> None:
    def body(day: datetime.date) -> None: ...

    bench = Bench(body)
    assert parked(bench.run("2030-01-02", envelope=changes)) == "undecodable_arguments"


class Base85:
    name = "base85"
    is_json = False

    def encode(self, value: Any) -> bytes:
        return msgspec.json.encode(value)

    def decode(self, data: bytes) -> Any:
        return msgspec.json.decode(data)


def test_a_codec_of_the_application_carries_arguments_and_result() -> None:
    bench = Bench(lambda x: [x])
    bench.app.add_codec(Base85())
    settlement = bench.run(1, codec="base85")
    assert isinstance(settlement, Ack)
    assert settlement.result == Payload("base85", b"[1]")
    broken = {"codec": "base85", "args": msgspec.Raw(b'"%%"')}
    assert parked(bench.run(1, envelope=broken)) == "undecodable_arguments"


def test_a_later_protocol_is_parked() -> None:
    assert parked(Bench(lambda: None).run(data=b'{"v":2}')) == "unsupported_version"


def test_bytes_that_are_no_envelope_are_a_dead_letter() -> None:
    bench = Bench(lambda: None)
    settlement = bench.run(data=b"garbage")
    assert isinstance(settlement, DeadLetter)
    assert settlement.reason == "malformed"
    assert bench.events() == ["task.dropped"]


def test_what_expired_on_its_way_is_not_run() -> None:
    bench = Bench(lambda: pytest.fail("ran"))
    assert isinstance(bench.run(expires=0.0), Expire)
    assert bench.events() == ["task.dropped"]


def test_a_parked_job_is_offered_again_ever_more_rarely() -> None:
    assert [park_delay(at, 1000.0) for at in (None, 1000.0, 900.0, 0.0)] == [1.0, 1.0, 10.0, 30.0]


# -- dependencies --------------------------------------------------------------------------------


def test_results_go_where_the_envelope_says() -> None:
    bench = Bench(lambda *args, **kwargs: [args, kwargs])
    after = (
        Dependency("J1", 0),
        Dependency("J2", 2),
        Dependency("J3", "name"),
        Dependency("J4", None),
        Dependency("J5", "list", collect=True),
        Dependency("J6", "list", collect=True),
        Dependency("J7", "missing"),
    )
    inputs = {f"J{n}": Payload("json", b"%d" % n) for n in range(1, 7)}
    settlement = bench.run("own", envelope={"after": after}, inputs=inputs)
    assert isinstance(settlement, Ack)
    assert settlement.result
    assert msgspec.json.decode(settlement.result.data) == [
        [1, "own", 2],
        {"name": 3, "list": [5, 6], "missing": None},
    ]


def test_a_mixed_up_workflow_never_hurts_the_executor() -> None:
    bench = Bench(lambda **kwargs: kwargs)
    after = (Dependency("J1", "a"), Dependency("J2", "a", collect=True), Dependency("J1", "a"))
    inputs = {"J1": Payload("json", b"1"), "J2": Payload("json", b"2")}
    assert isinstance(bench.run(envelope={"after": after}, inputs=inputs), Ack)
    broken = {"J1": Payload("json", b"{")}
    assert parked(bench.run(envelope={"after": after}, inputs=broken)) == "undecodable_arguments"


# -- hooks ---------------------------------------------------------------------------------------


class Hooked(Task[..., Any]):
    """Writes down what happens to it."""

    name = "t"
    retry = Retry(max_attempts=2, jitter=False)
    error: BaseException | None = None
    hook_error: BaseException | None = None

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    def run(self, x: int = 0) -> str:
        self.seen.append("run")
        if self.error:
            raise self.error
        return "done"

    def note(self, *what: Any) -> None:
        self.seen.append(what)
        if self.hook_error:
            raise self.hook_error

    def before_start(self, ctx: Any) -> None:
        self.note("before_start", ctx.attempt)

    def on_success(self, ctx: Any, result: Any) -> None:
        self.note("on_success", result)

    def on_failure(self, ctx: Any, error: BaseException) -> None:
        self.note("on_failure", type(error).__name__)

    def on_retry(self, ctx: Any, error: BaseException | None) -> None:
        self.note("on_retry", type(error).__name__)

    def after_return(self, ctx: Any, state: JobState) -> None:
        self.note("after_return", state)


def hooked(error: BaseException | None = None) -> tuple[Bench, Hooked]:
    bench = Bench(Hooked)
    assert isinstance(bench.task, Hooked)
    bench.task.error = error
    return bench, bench.task


def test_the_order_of_hooks() -> None:
    bench, task = hooked()
    bench.run()
    assert task.seen == [
        ("before_start", 1),
        "run",
        ("on_success", "done"),
        ("after_return", "SUCCEEDED"),
    ]


@pytest.mark.parametrize(
    ("error", "attempt", "told"),
    [
        (ValueError(), 1, [("on_retry", "ValueError"), ("after_return", "RETRYING")]),
        (ValueError(), 2, [("on_failure", "ValueError"), ("after_return", "FAILED")]),
        (RetryJob(), 1, [("on_retry", "NoneType"), ("after_return", "RETRYING")]),
        (RetryJob(), 2, [("on_failure", "RetryJob"), ("after_return", "FAILED")]),
        (RejectJob(), 1, [("on_failure", "RejectJob"), ("after_return", "FAILED")]),
        (JobCancelled(), 1, [("after_return", "REVOKED")]),
        (ReleaseJob(), 1, [("after_return", "QUEUED")]),
    ],
)
def test_each_end_has_its_hook(error: BaseException, attempt: int, told: list[Any]) -> None:
    bench, task = hooked(error)
    bench.run(attempt=attempt)
    assert task.seen[2:] == told


def test_a_hook_that_fails_before_the_start_fails_the_attempt() -> None:
    bench, task = hooked()
    task.hook_error = OSError("no connection")
    assert isinstance(bench.run(), RetryLater)
    assert "run" not in task.seen


@pytest.mark.parametrize("problem", [ValueError("in a hook"), RetryJob(), SystemExit(1)])
@pytest.mark.parametrize("error", [None, ValueError(), RejectJob()])
def test_a_hook_that_fails_later_is_logged_and_changes_nothing(
    problem: BaseException, error: BaseException | None, caplog: pytest.LogCaptureFixture
) -> None:
    bench, task = hooked(error)
    task.before_start = lambda ctx: setattr(task, "hook_error", problem)  # type: ignore[method-assign]  # from now on
    settlement = bench.run(attempt=2)
    assert isinstance(settlement, DeadLetter if error else Ack)
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 2
    assert "of task t failed (job " in caplog.text


def test_with_hooks_arguments_are_checked_before_any_of_them() -> None:
    bench, task = hooked()
    assert parked(bench.run(envelope={"args": msgspec.Raw(b"[1,2]")})) == "arguments_do_not_fit"
    assert task.seen == []


# -- while it runs -------------------------------------------------------------------------------


def test_the_worker_reaches_the_context_of_what_runs() -> None:
    def body() -> None:
        context = bench.executor.running[current_task().id]
        assert context is current_task()
        context.cancelled = True
        current_task().check_cancelled()

    bench = Bench(body)
    assert isinstance(bench.run(), Revoke)
    assert bench.executor.running == {}


def test_threads_share_an_executor_without_seeing_each_other() -> None:
    together = threading.Barrier(4, timeout=10)

    def body(x: int) -> list[Any]:
        together.wait()
        return [x, current_task().id]

    bench = Bench(body)
    deliveries = [bench.delivery(x) for x in range(4)]
    outcomes: list[Any] = [None] * 4

    def run(x: int) -> None:
        outcomes[x] = bench.executor.execute(deliveries[x]).settlement

    threads = [threading.Thread(target=run, args=(x,)) for x in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    results = [msgspec.json.decode(each.result.data) for each in outcomes]
    assert results == [[x, deliveries[x].job_id] for x in range(4)]
