"""Dead letters: look, mend, replay, bury."""

from typing import Any

import msgspec
import pytest

from taskmq import App, Config, JobState, MessageTooLarge, UnknownJob
from taskmq.envelope import load
from taskmq.errors import EncodeError
from taskmq.executor import Executor
from taskmq.testing import FakeClock
from taskmq.transport import Reservation


class Morgue:
    """An app whose jobs have all failed."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.app = App(Config(max_message_bytes=2000), clock=self.clock)
        register: Any = self.app.task(name="fail")
        self.fail = register(lambda *args, **kwargs: 1 / 0)
        register = self.app.task(name="other", queue="email")
        self.other = register(lambda: 1 / 0)

    def run(self) -> None:
        wanted = Reservation(
            queues={"default": 1, "email": 1}, worker="w", lease=60.0, limit=10_000
        )
        executor = Executor(self.app)
        deliveries = self.app.transport.reserve(wanted)
        self.app.transport.settle([executor.execute(each).settlement for each in deliveries])


@pytest.fixture
def morgue() -> Morgue:
    return Morgue()


def test_a_letter_tells_what_happened(morgue: Morgue) -> None:
    job = morgue.fail.delay(1)
    morgue.run()
    letter = morgue.app.dead_letters.get(job.id)
    assert (letter.task, letter.dead_reason, letter.attempt) == ("fail", "error", 1)
    assert letter.failure
    assert letter.failure.type == "builtins.ZeroDivisionError"
    assert "1 / 0" in letter.failure.traceback
    assert [entry.event for entry in letter.history] == ["dead"]


def test_only_dead_letters_are_letters(morgue: Morgue) -> None:
    job = morgue.fail.delay(1)
    for job_id in (job.id, "NOBODY"):
        with pytest.raises(UnknownJob, match=f"no dead letter {job_id}"):
            morgue.app.dead_letters.get(job_id)
        with pytest.raises(UnknownJob, match=f"no dead letter {job_id}"):
            morgue.app.dead_letters.replay(job_id)


def test_they_are_listed_oldest_first_by_queue_and_by_task(morgue: Morgue) -> None:
    jobs = [morgue.fail.delay(1), morgue.other.delay(), morgue.fail.submit(2, queue="email")]
    morgue.run()
    box = morgue.app.dead_letters

    def listed(**which: Any) -> list[int]:
        ids = [job.id for job in jobs]
        return [ids.index(letter.id) for letter in box.list(**which)]

    assert listed() == [0, 1, 2]
    assert listed(queue="email") == [1, 2]
    assert listed(task="fail") == [0, 2]
    assert listed(queue="email", task="fail") == [2]
    assert listed(limit=2) == [0, 1]
    assert listed(limit=0) == []


@pytest.mark.parametrize("limit", [None, 499, 500, 501, 1200])
def test_listing_goes_on_page_by_page(morgue: Morgue, limit: int | None) -> None:
    morgue.fail.submit_many([(n,) for n in range(1001)])
    morgue.run()
    letters = list(morgue.app.dead_letters.list(limit=limit))
    assert len(letters) == len({letter.id for letter in letters}) == min(limit or 1001, 1001)


def test_replay_starts_over_and_keeps_the_history(morgue: Morgue) -> None:
    job = morgue.fail.delay(1)
    morgue.run()
    morgue.app.dead_letters.replay(job.id)
    record = job.record
    assert record is not None
    assert (record.state, record.attempt, record.dead_reason) == ("QUEUED", 1, None)
    assert [entry.event for entry in record.history][:1] == ["dead"]
    morgue.run()
    assert job.state is JobState.FAILED


def test_replay_may_change_arguments_and_queue(morgue: Morgue) -> None:
    job = morgue.fail.submit(1, 2, a=3)
    morgue.run()
    box = morgue.app.dead_letters

    def after(**edit: Any) -> tuple[str, Any]:
        box.replay(job.id, **edit)
        record = job.record
        assert record
        morgue.run()
        return record.queue, morgue.app.arguments_of(load(record.envelope))

    assert after(queue="email") == ("email", ([1, 2], {"a": 3}))
    assert after(args=[]) == ("email", ([], {"a": 3}))
    assert after(kwargs={"b": [4]}) == ("email", ([], {"b": [4]}))
    assert after(args=(5,), kwargs={}, queue="default") == ("default", ([5], {}))


def test_an_edit_that_cannot_be_stored_leaves_the_letter(morgue: Morgue) -> None:
    job = morgue.fail.delay(1)
    morgue.run()
    before = morgue.app.dead_letters.get(job.id)
    with pytest.raises(EncodeError):
        morgue.app.dead_letters.replay(job.id, args=[object()])
    with pytest.raises(MessageTooLarge):
        morgue.app.dead_letters.replay(job.id, args=["x" * 3000])
    assert morgue.app.dead_letters.get(job.id) == before


def test_own_types_and_codecs_survive_an_edit(morgue: Morgue) -> None:
    morgue.app.register_codec(complex, encode=str, decode=complex)
    morgue.app.add_codec(Text())
    tagged, own = morgue.fail.delay(1j), morgue.fail.call(1).options(codec="text").submit()
    morgue.run()
    for job, codec in ((tagged, "json+types"), (own, "text")):
        morgue.app.dead_letters.replay(job.id, kwargs={"a": 1})
        envelope = load(job.record.envelope)
        assert envelope.codec == codec
        assert morgue.app.arguments_of(envelope)[1] == {"a": 1}


class Text:
    name = "text"
    is_json = False

    def encode(self, value: Any) -> bytes:
        return msgspec.json.encode(value)

    def decode(self, data: bytes) -> Any:
        return msgspec.json.decode(data)


def test_an_expiry_that_has_passed_is_taken_off(morgue: Morgue) -> None:
    jobs = [morgue.fail.submit(n, expires=60) for n in range(3)]
    morgue.run()
    box = morgue.app.dead_letters
    morgue.clock.advance(30)
    box.replay(jobs[0].id)
    assert jobs[0].record.expires_at == morgue.clock.now() + 30  # it still holds
    morgue.clock.advance(3600)
    box.replay(jobs[1].id)
    assert box.replay_all() == 1
    morgue.app.transport.maintain()
    assert [job.state for job in jobs] == ["EXPIRED", "QUEUED", "QUEUED"]


def test_replay_all_by_queue_and_by_task(morgue: Morgue) -> None:
    morgue.fail.submit_many([(n,) for n in range(600)])
    morgue.other.delay()
    morgue.run()
    box = morgue.app.dead_letters
    assert box.replay_all(queue="email") == 1
    assert box.replay_all(task="other") == 0
    assert box.replay_all() == 600
    assert list(box.list()) == []


def test_purge_deletes_for_good(morgue: Morgue) -> None:
    jobs = [morgue.fail.delay(1), morgue.other.delay()]
    morgue.run()
    assert morgue.app.dead_letters.purge(queue="email") == 1
    assert [job.state for job in jobs] == ["FAILED", "UNKNOWN"]
    assert morgue.app.dead_letters.purge() == 1
    assert morgue.app.dead_letters.purge() == 0
