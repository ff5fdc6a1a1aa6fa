"""Handles: states, values, and ways to wait for them."""

import asyncio
import datetime
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from taskmq import (
    App,
    Call,
    Config,
    JobExpired,
    JobRevoked,
    JobSkipped,
    JobState,
    RemoteError,
    Result,
    ResultError,
    ResultTimeout,
    UnknownJob,
)
from taskmq.codec import Payload
from taskmq.envelope import Dependency
from taskmq.errors import DecodeError
from taskmq.executor import Executor
from taskmq.records import Failure
from taskmq.testing import FakeClock
from taskmq.transport import Ack, DeadLetter, Delivery, Reservation, Settlement


class Desk:
    """An app, and a worker that does what the test says."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.app = App(Config(), clock=self.clock)

        @self.app.task
        def add(x: int, y: int = 0) -> int:
            return x + y

        self.add = add

    def reserve(self) -> Delivery:
        wanted = Reservation(queues={"default": 1}, worker="w1", lease=60.0, limit=1)
        (delivery,) = self.app.transport.reserve(wanted)
        return delivery

    def run_one(self) -> Settlement:
        delivery = self.reserve()
        self.clock.advance(2)
        settlement = Executor(self.app, worker="w1").execute(delivery).settlement
        self.app.transport.settle([settlement])
        return settlement


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk()
    yield made
    made.app.close()


def test_a_success_gives_its_value_and_its_facts(desk: Desk) -> None:
    result = desk.add.delay(2, 3)
    assert (result.state, repr(result)) == ("QUEUED", f"<result {result.id}>")
    assert result.info["runtime"] is None
    desk.run_one()
    assert (result.wait(), result.state, result.get()) == ("SUCCEEDED", "SUCCEEDED", 5)
    info = result.info
    assert (info["attempt"], info["deliveries"], info["worker"]) == (1, 1, "w1")
    assert info["runtime"] == 2
    assert info["finished_at"] == desk.clock.now()


def test_a_value_has_the_type_that_the_task_names_also_for_a_handle_by_id(desk: Desk) -> None:
    @desk.app.task
    def today() -> datetime.date:
        return datetime.date(2030, 1, 2)

    result = today.delay()
    desk.run_one()
    assert result.get() == datetime.date(2030, 1, 2)
    assert desk.app.result(result.id).get() == datetime.date(2030, 1, 2)


def test_a_failure_tells_type_message_traceback_and_reason(desk: Desk) -> None:
    result = desk.add.delay(1, "x")  # type: ignore[arg-type]  # to fail
    desk.run_one()
    with pytest.raises(RemoteError) as caught:
        result.get()
    error = caught.value
    assert (error.type, error.reason) == ("builtins.TypeError", "error")
    assert "unsupported operand" in error.message
    assert "return x + y" in error.traceback
    assert str(error).startswith("builtins.TypeError: unsupported operand")
    assert str(error).rstrip().endswith("'int' and 'str'")
    assert result.wait() is JobState.FAILED


def test_a_failure_without_details_has_its_reason(desk: Desk) -> None:
    result = desk.add.delay(1)
    dead = DeadLetter(desk.reserve(), "worker_lost", Failure(type="worker_lost"))
    desk.app.transport.settle([dead])
    with pytest.raises(RemoteError) as caught:
        result.get()
    assert (str(caught.value), caught.value.reason) == ("worker_lost", "worker_lost")


@pytest.mark.parametrize("timeout", [None, 5.0])
def test_each_other_end_has_its_error(desk: Desk, timeout: float | None) -> None:
    revoked, expired = desk.add.delay(1), desk.add.submit(1, expires=10)
    waiting = desk.app.submit(Call(desk.add, (1,), after=(Dependency(revoked.id),)))
    assert revoked.revoke()
    desk.clock.advance(11)
    desk.app.transport.maintain()
    for result, error, state in [
        (revoked, JobRevoked, "REVOKED"),
        (expired, JobExpired, "EXPIRED"),
        (waiting, JobSkipped, "SKIPPED"),
    ]:
        assert result.wait(timeout) == state
        with pytest.raises(error, match=result.id):
            result.get(timeout)
    assert not revoked.revoke()


def test_an_unknown_id_is_told_at_once(desk: Desk) -> None:
    nobody = desk.app.result("NOBODY")
    assert (nobody.state, nobody.record, nobody.info) == (JobState.UNKNOWN, None, {})
    assert not nobody.revoke()
    assert not nobody.forget()
    for read in (nobody.get, nobody.wait):
        with pytest.raises(UnknownJob, match="the store knows no job NOBODY"):
            read()


def test_forget_deletes_what_is_finished(desk: Desk) -> None:
    result = desk.add.delay(1)
    assert not result.forget()
    desk.run_one()
    assert result.forget()
    assert result.state == "UNKNOWN"


def test_a_value_that_was_not_kept_is_no_silent_none(desk: Desk) -> None:
    result = desk.add.call(1).options(store_result=False).submit()
    desk.run_one()
    with pytest.raises(ResultError, match="succeeded; its value was not kept"):
        result.get()


@pytest.mark.parametrize("timeout", [0, 0.01])
def test_waiting_ends_in_time_and_leaves_the_job(desk: Desk, timeout: float) -> None:
    result = desk.add.delay(1)
    for read in (result.get, result.wait):
        with pytest.raises(TimeoutError, match=f"is QUEUED after {timeout:g} s") as caught:
            read(timeout)
        assert isinstance(caught.value, ResultTimeout)
    assert result.state == "QUEUED"


def test_a_waiting_thread_is_woken_by_the_end_of_the_job(desk: Desk) -> None:
    result = desk.add.delay(2, 3)
    values: list[int] = []
    waiting = threading.Thread(target=lambda: values.append(result.get(timeout=10)))
    waiting.start()
    desk.run_one()
    waiting.join(10)
    assert values == [5]


@pytest.mark.parametrize(("age", "gap"), [(0.0, 1), (1.0, 1), (1.0, 2)])
def test_a_job_that_ends_between_looking_and_listening_is_not_missed(
    desk: Desk, age: float, gap: int
) -> None:
    """The end falls into every gap that a wait has. One for a job that was submitted just now has
    one only: it listens first."""

    class Gap(Result[int]):
        looks = 0

        @property
        def record(self) -> Any:
            found = super().record
            self.looks += 1
            if self.looks == gap:
                desk.run_one()
            return found

    job = desk.add.delay(gap)
    desk.clock.advance(age)
    assert Gap(desk.app, job.id).get(timeout=10) == gap


def test_a_result_that_goes_while_someone_waits_is_unknown(desk: Desk) -> None:
    result = desk.add.call(1).options(result_ttl=0).submit()
    errors: list[BaseException] = []

    def wait() -> None:
        try:
            result.get(timeout=10)
        except UnknownJob as error:
            errors.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    desk.run_one()
    waiting.join(10)
    assert len(errors) == 1


# -- asyncio -------------------------------------------------------------------------------------


def test_coroutines_read_as_functions_do(desk: Desk) -> None:
    async def main() -> tuple[int, JobState]:
        result = await desk.add.adelay(2, 3)
        desk.run_one()
        return await result.aget(timeout=10), await result.await_finished()

    assert asyncio.run(main()) == (5, JobState.SUCCEEDED)


def test_coroutines_get_the_same_errors(desk: Desk) -> None:
    async def main() -> None:
        with pytest.raises(ResultTimeout):
            await desk.add.delay(1).aget(timeout=0.01)
        with pytest.raises(UnknownJob):
            await desk.app.result("NOBODY").aget()

    asyncio.run(main())


@pytest.mark.timeout(20)
def test_an_abandoned_wait_lets_the_program_end(desk: Desk) -> None:
    """Otherwise the event loop, which waits for its threads, would never close."""

    async def main() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(desk.add.delay(1).aget(), timeout=0.05)

    asyncio.run(main())


def test_a_value_that_the_reader_cannot_decode(desk: Desk) -> None:
    result = desk.add.delay(1)
    desk.app.transport.settle([Ack(desk.reserve(), Payload("yaml", b"?"))])
    with pytest.raises(DecodeError, match="codec 'yaml' is not registered"):
        result.get()
