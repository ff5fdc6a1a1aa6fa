"""Jobs that wait in vain: skipped by the first loss, revived by its replay."""

from __future__ import annotations

from collections.abc import Callable

from taskmq.states import JobState
from taskmq.transport import Ack, DeadLetter, Nack

from .case import case
from .checks import equal, near
from .subject import FAILURE, Subject, text

S = JobState


def _die(subject: Subject, job_id: str) -> None:
    subject.done(DeadLetter(subject.take(job_id), "error", FAILURE))


def _succeed(subject: Subject, job_id: str, value: str = "value") -> None:
    subject.done(Ack(subject.take(job_id), text(value)))


def _states(subject: Subject, *job_ids: str) -> list[JobState]:
    return [subject.state(job_id) for job_id in job_ids]


@case("dependencies")
def dependency_that_is_lost_skips_at_once(subject: Subject) -> None:
    """A job whose dependency has failed already is stored SKIPPED, and so is what it feeds."""
    dead, revoked = subject.add_many(2)
    _die(subject, dead)
    subject.transport.revoke([revoked])
    for lost, turn in ((dead, 1), (revoked, -1)):
        second = subject.job(after=[lost])
        third = subject.job(after=[second.envelope.id])
        subject.transport.enqueue([second, third][::turn])
        record = subject.expect(second.envelope.id, S.SKIPPED, "at once")
        near(record.finished_at, subject.clock.now(), "finished_at")
        subject.expect(third.envelope.id, S.SKIPPED, "at once")
    subject.idle()


@case("dependencies")
def every_loss_skips_what_waits(subject: Subject) -> None:
    """A dead, expired or revoked job, and one whose worker is lost, skips its dependents,
    and theirs, in the same step."""
    losses: dict[str, Callable[[str], object]] = {
        "death": lambda job_id: _die(subject, job_id),
        "revoke": lambda job_id: subject.transport.revoke([job_id]),
        "loss of its worker": lambda job_id: subject.done(Nack(subject.take(job_id))),
    }
    for loss, lose in losses.items():
        first = subject.add(max_deliveries=1)
        second = subject.add(after=[first])
        third = subject.add(after=[second])
        lose(first)
        states = _states(subject, second, third)
        equal(states, [S.SKIPPED, S.SKIPPED], f"states after the {loss} of the first")
        near(subject.record(third).finished_at, subject.clock.now(), "finished_at")
    subject.idle()


@case("dependencies")
def one_loss_is_enough(subject: Subject) -> None:
    """A fan-in is skipped by its first loss; the other dependencies run on."""
    a, b = subject.add_many(2)
    waiting = subject.add(after=[a, b])
    _die(subject, a)
    subject.expect(waiting, S.SKIPPED, "after one loss")
    _succeed(subject, b)
    subject.expect(waiting, S.SKIPPED, "after the other's success")
    subject.idle()


@case("dependencies")
def long_chain_is_skipped_whole(subject: Subject) -> None:
    """The loss of the first of 2,000 skips all the others, however deep."""
    batch = [subject.job()]
    for _ in range(1_999):
        batch.append(subject.job(after=[batch[-1].envelope.id]))
    subject.transport.enqueue(batch)
    _die(subject, batch[0].envelope.id)
    records = subject.transport.get([sealed.envelope.id for sealed in batch[1:]])
    equal({record.state for record in records if record}, {S.SKIPPED}, "states")
    subject.transport.replay([batch[0].envelope.id], {})
    records = subject.transport.get([sealed.envelope.id for sealed in batch[1:]])
    equal({record.state for record in records if record}, {S.WAITING}, "states after a replay")


@case("dependencies")
def replay_lets_skipped_jobs_wait_again(subject: Subject) -> None:
    """A replay of the dead dependency revives what was skipped because of it, and only that."""
    first, other = subject.add_many(2)
    second = subject.add(after=[first])
    third = subject.add(after=[second, other])
    revoked = subject.add(after=[first])
    subject.transport.revoke([revoked])
    _die(subject, first)
    _succeed(subject, other, "other")
    subject.transport.replay([first], {})
    equal(_states(subject, second, third, revoked), [S.WAITING, S.WAITING, S.REVOKED], "states")
    record = subject.record(third)
    equal((record.pending, record.finished_at), (1, None), "pending and finished_at")
    _succeed(subject, first, "first")
    _succeed(subject, second, "second")
    inputs = {second: text("second"), other: text("other")}
    equal(subject.take(third).inputs, inputs, "inputs, one of them from before the replay")


@case("dependencies")
def skipped_job_waits_again_only_if_nothing_else_is_lost(subject: Subject) -> None:
    """With two dead dependencies, a dependent waits again when both were replayed."""
    a, b = subject.add_many(2)
    waiting = subject.add(after=[a, b])
    behind = subject.add(after=[waiting])
    _die(subject, a)
    _die(subject, b)
    subject.transport.replay([a], {})
    equal(_states(subject, waiting, behind), [S.SKIPPED] * 2, "states after one replay")
    _succeed(subject, a)
    subject.transport.replay([b], {})
    equal(_states(subject, waiting, behind), [S.WAITING] * 2, "states after both")
    _succeed(subject, b)
    subject.take(waiting)


@case("dependencies")
def both_replayed_in_one_call(subject: Subject) -> None:
    """Dead dependencies replayed together revive their dependent, in either order."""
    for turn in (1, -1):
        pair = subject.add_many(2)
        waiting = subject.add(after=pair)
        for job_id in pair:
            _die(subject, job_id)
        equal(subject.transport.replay(pair[::turn], {}), [True, True], "replayed")
        subject.expect(waiting, S.WAITING, "after the replay")
        subject.settle(*(Ack(delivery) for delivery in subject.reserve(limit=2)))
        subject.done(Ack(subject.take(waiting)))


@case("dependencies")
def success_before_the_skip_is_not_lost(subject: Subject) -> None:
    """A dependency that succeeds while its dependent is skipped counts after a replay, even if
    it was deleted meanwhile."""
    dead, other = subject.add(), subject.add(result_ttl=0.0)
    waiting = subject.add(after=[dead, other])
    _die(subject, dead)
    _succeed(subject, other, "other")
    equal(subject.state(other), S.UNKNOWN, "state of the deleted dependency")
    subject.transport.replay([dead], {})
    equal(subject.expect(waiting, S.WAITING, "after the replay").pending, 1, "pending")
    _succeed(subject, dead, "first")
    equal(subject.take(waiting).inputs, {dead: text("first"), other: text("other")}, "inputs")


@case("dependencies")
def buried_dependency_leaves_its_dependents_skipped(subject: Subject) -> None:
    """What waited for a dead letter stays SKIPPED when that is deleted."""
    first, second = subject.add_many(2)
    waiting = subject.add(after=[first, second])
    _die(subject, first)
    _die(subject, second)
    subject.transport.bury([first])
    subject.transport.replay([second], {})
    subject.expect(waiting, S.SKIPPED, "with one dependency buried")


@case("dependencies")
def replay_of_a_dependent_needs_no_dependency(subject: Subject) -> None:
    """A dead letter that had its inputs is replayed straight into its queue."""
    first = subject.add()
    job_id = subject.add(after=[first])
    _succeed(subject, first)
    _die(subject, job_id)
    subject.transport.replay([job_id], {})
    equal(subject.expect(job_id, S.QUEUED, "after the replay").pending, 0, "pending")


@case("dependencies")
def success_before_a_skip_at_once_is_not_lost(subject: Subject) -> None:
    """A job that is skipped when it is stored, because of one that is dead, knows of the others
    that had succeeded; when that is replayed, it waits for nothing else."""
    for first_is_dead in (True, False):
        dead, other = subject.add_many(2)
        _die(subject, dead)
        _succeed(subject, other, "other")
        waiting = subject.add(after=[dead, other] if first_is_dead else [other, dead])
        subject.expect(waiting, S.SKIPPED, "at once")
        subject.transport.replay([dead], {})
        equal(subject.expect(waiting, S.WAITING, "after the replay").pending, 1, "pending")
        _succeed(subject, dead, "first")
        inputs = {dead: text("first"), other: text("other")}
        equal(subject.take(waiting).inputs, inputs, "inputs")
