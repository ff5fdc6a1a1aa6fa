"""The conformance suite can fail: each store below breaks one promise and is caught."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
import pytest

from taskmq.clock import Clock
from taskmq.documents import DocumentChange
from taskmq.envelope import Sealed
from taskmq.records import JobFilter, JobRecord, MaintenanceReport, Reclaimed, WorkerRecord
from taskmq.testing.conformance import Status, cases, run
from taskmq.transport import (
    Ack,
    Defer,
    Delivery,
    Enqueued,
    Exchange,
    LeaseStatus,
    Listener,
    Release,
    Reservation,
    RetryLater,
    Settled,
    Settlement,
)
from taskmq.transports.memory import MemoryTransport

FAR = 1e12
change = msgspec.structs.replace


class Altered(MemoryTransport):
    """A store with a place to put a bug, on the way in and on the way out."""

    def stored(self, sealed: Sealed) -> Sealed:
        return sealed

    def settlement(self, settlement: Settlement) -> Settlement:
        return settlement

    def wanted(self, reservation: Reservation) -> Reservation:
        return reservation

    def answer(self, answer: Exchange) -> Exchange:
        return answer

    def enqueue(self, sealed: Sequence[Sealed]) -> list[Enqueued]:
        return super().enqueue([self.stored(one) for one in sealed])

    def exchange(
        self, settlements: Sequence[Settlement] = (), reservation: Reservation | None = None
    ) -> Exchange:
        wanted = reservation and self.wanted(reservation)
        return self.answer(super().exchange([self.settlement(s) for s in settlements], wanted))


def _with(sealed: Sealed, **fields: object) -> Sealed:
    return Sealed(change(sealed.envelope, **fields), sealed.data)


class AckWithoutToken(Altered):
    """Whoever acks is believed."""

    def settlement(self, settlement: Settlement) -> Settlement:
        job = self._store.jobs.get(settlement.delivery.job_id)
        if not isinstance(settlement, Ack) or job is None:
            return settlement
        return Ack(change(settlement.delivery, token=job.token), settlement.result)


class BatchIsNotAtomic(MemoryTransport):
    """A conflict leaves stored what stood before it in the batch."""

    def enqueue(self, sealed: Sequence[Sealed]) -> list[Enqueued]:
        return [answer for one in sealed for answer in super(type(self), self).enqueue([one])]


class BurstsAreTooLarge(Altered):
    """A rate lets twice as many come at once."""

    def stored(self, sealed: Sealed) -> Sealed:
        doubled = [change(limit, burst=2 * limit.burst) for limit in sealed.envelope.limits]
        return _with(sealed, limits=tuple(doubled))


class CapacityIsForgotten(MemoryTransport):
    """Every queue has room."""

    def enqueue(self, sealed: Sequence[Sealed]) -> list[Enqueued]:
        return super().enqueue([change(one, capacity=None) for one in sealed])


class CeilingIsOneTooHigh(Altered):
    """A job may lose one worker more than it says."""

    def stored(self, sealed: Sealed) -> Sealed:
        return _with(sealed, max_deliveries=sealed.envelope.max_deliveries + 1)


class DelayIsRounded(Altered):
    """Visible at about the right time."""

    def settlement(self, settlement: Settlement) -> Settlement:
        if isinstance(settlement, (Defer, RetryLater)):
            return change(settlement, delay=float(int(settlement.delay)))
        return settlement


class DeliversExpired(Altered):
    """Expiry is forgotten."""

    def stored(self, sealed: Sealed) -> Sealed:
        return _with(sealed, expires_at=None)


class DependentsNeverSkip(MemoryTransport):
    """What waits for a revoked job waits for ever."""

    def revoke(
        self, job_ids: Sequence[str], *, terminate: bool = False, by: str = ""
    ) -> list[bool]:
        dependents, self._store.dependents = self._store.dependents, {}
        answers = super().revoke(job_ids, terminate=terminate, by=by)
        self._store.dependents = dependents
        return answers


class DropsSilently(MemoryTransport):
    """What has to make room is gone without a word."""

    def enqueue(self, sealed: Sequence[Sealed]) -> list[Enqueued]:
        answers = super().enqueue(sealed)
        for job in list(self._store.jobs.values()):
            if job.dead_reason == "queue_full":
                self._store.delete(job)
        return answers


class EnvelopeIsRewritten(Altered):
    """The bytes that come out are not those that went in."""

    def stored(self, sealed: Sealed) -> Sealed:
        return Sealed(sealed.envelope, msgspec.json.encode(sealed.envelope, order="sorted"))


class ExtendAlwaysHolds(MemoryTransport):
    """A worker that lost its job is told that it has it."""

    def extend(self, deliveries: Sequence[Delivery], lease: float) -> list[LeaseStatus]:
        super().extend(deliveries, lease)
        return [LeaseStatus.HELD] * len(deliveries)


class IgnoresPriority(Altered):
    """All jobs are equally urgent."""

    def stored(self, sealed: Sealed) -> Sealed:
        return _with(sealed, priority=0)


class KeyLastsForEver(Altered):
    """The window of an idempotency key never ends."""

    def stored(self, sealed: Sealed) -> Sealed:
        return _with(sealed, key_ttl=FAR)


class LimitIsExceeded(Altered):
    """A worker gets more than it asked for."""

    def wanted(self, reservation: Reservation) -> Reservation:
        return change(reservation, limit=reservation.limit + bool(reservation.limit))


class LimitsAreForgotten(Altered):
    """As many run as there are slots."""

    def stored(self, sealed: Sealed) -> Sealed:
        return _with(sealed, limits=())


class LosesResults(Altered):
    """The state says success, the result is gone."""

    def settlement(self, settlement: Settlement) -> Settlement:
        return Ack(settlement.delivery) if isinstance(settlement, Ack) else settlement


class NamedLeaseForEverybody(MemoryTransport):
    """Everybody leads."""

    def acquire(self, name: str, owner: str, ttl: float) -> bool:
        self._store.leases.clear()
        return super().acquire(name, owner, ttl)


class NamesAreForgotten(Altered):
    """Whoever asks for certain jobs gets any."""

    def wanted(self, reservation: Reservation) -> Reservation:
        return change(reservation, jobs=None)


class NeverForgets(Altered):
    """Finished jobs are kept for good."""

    def stored(self, sealed: Sealed) -> Sealed:
        return _with(sealed, result_ttl=FAR)


class NeverReclaims(Altered):
    """A job whose worker is lost stays lost."""

    def wanted(self, reservation: Reservation) -> Reservation:
        return change(reservation, lease=FAR)


class NobodyFollowsTheRevoked(MemoryTransport):
    """A job that was next and is revoked leaves those behind it where they are."""

    def revoke(
        self, job_ids: Sequence[str], *, terminate: bool = False, by: str = ""
    ) -> list[bool]:
        for job_id in job_ids:
            if job_id in self._store.jobs:
                self._store.jobs[job_id].limits = ()
        return super().revoke(job_ids, terminate=terminate, by=by)


class OnReceiptIsRedelivered(Altered):
    """At most once becomes at least once."""

    def stored(self, sealed: Sealed) -> Sealed:
        return _with(sealed, ack="on_success")


class PauseIsForgotten(MemoryTransport):
    """A paused queue is listed as such, and served all the same."""

    def exchange(
        self, settlements: Sequence[Settlement] = (), reservation: Reservation | None = None
    ) -> Exchange:
        paused, self._store.paused = self._store.paused, {}
        answer = super().exchange(settlements, reservation)
        self._store.paused = paused
        return answer


class WritesBlindly(MemoryTransport):
    """A document is written over whatever is there."""

    def _write(self, wanted: DocumentChange) -> bool:
        found = self._store.documents.get(wanted.kind, {}).get(wanted.name)
        return super()._write(change(wanted, expected=found and found.revision))


class QuotasAreForgotten(Altered):
    """One queue may have all slots."""

    def wanted(self, reservation: Reservation) -> Reservation:
        return change(reservation, quotas={})


class ReleaseCounts(Altered):
    """A job that was given back unstarted has used up a delivery."""

    def settlement(self, settlement: Settlement) -> Settlement:
        if isinstance(settlement, Release):
            self._store.jobs[settlement.delivery.job_id].deliveries += 1
        return settlement


class ReplayForgetsHistory(MemoryTransport):
    """A replayed job has no past."""

    def replay(self, job_ids: Sequence[str], envelopes: Mapping[str, Sealed]) -> list[bool]:
        answers = super().replay(job_ids, envelopes)
        for job_id in job_ids:
            if job_id in self._store.jobs:
                self._store.jobs[job_id].history = []
        return answers


class ReplayReusesTokens(MemoryTransport):
    """A late worker of a job's former life is believed in its next."""

    def replay(self, job_ids: Sequence[str], envelopes: Mapping[str, Sealed]) -> list[bool]:
        self._store._token = 0
        return super().replay(job_ids, envelopes)


class RetryLosesItsPlace(Altered):
    """A retried job queues up again at the end."""

    def settlement(self, settlement: Settlement) -> Settlement:
        if isinstance(settlement, RetryLater):
            self._store.jobs[settlement.delivery.job_id].sequence += 1_000
        return settlement


class RevokesAnonymously(MemoryTransport):
    """Nobody learns who revoked a job."""

    def revoke(
        self, job_ids: Sequence[str], *, terminate: bool = False, by: str = ""
    ) -> list[bool]:
        return super().revoke(job_ids, terminate=terminate)


class RevokeSparesTheRunning(MemoryTransport):
    """A running job hears nothing of its revocation."""

    def revoke(
        self, job_ids: Sequence[str], *, terminate: bool = False, by: str = ""
    ) -> list[bool]:
        answers = super().revoke(job_ids, terminate=terminate, by=by)
        for job in self._store.jobs.values():
            job.cancel_requested = job.terminate_requested = False
        return answers


class SettlesTwice(Altered):
    """A repeated settlement is said to have taken effect again."""

    def answer(self, answer: Exchange) -> Exchange:
        done = [Settled.DONE if s is Settled.REPEATED else s for s in answer.settled]
        return change(answer, settled=done)


class TimersAreForgotten(Altered):
    """Nobody learns when to look again."""

    def answer(self, answer: Exchange) -> Exchange:
        return change(answer, next_due_at=None)


class TenantsPushIn(Altered):
    """Whoever has many jobs has many turns."""

    def stored(self, sealed: Sealed) -> Sealed:
        return _with(sealed, fair=None)


class TenantsAreAllAlike(Altered):
    """The weights of tenants make no difference."""

    def stored(self, sealed: Sealed) -> Sealed:
        fair = sealed.envelope.fair
        return _with(sealed, fair=fair and change(fair, weight=1.0))


class TurnsIgnoreWeights(Altered):
    """Every queue has the same turns."""

    def wanted(self, reservation: Reservation) -> Reservation:
        return change(reservation, queues=dict.fromkeys(reservation.queues, 1))


class TellsNobody(MemoryTransport):
    """Maintenance ends jobs without a word."""

    def maintain(self, limit: int = 1000) -> MaintenanceReport:
        return change(super().maintain(limit), dropped=())

    def reclaim(self, worker: WorkerRecord) -> Reclaimed:
        return change(super().reclaim(worker), dropped=())


class UnknownIdsAreInvented(MemoryTransport):
    """An id that nobody stored is said to be queued."""

    def get(self, job_ids: Sequence[str]) -> list[JobRecord | None]:
        some = self.find(JobFilter(limit=1))
        return [record or (some[0] if some else None) for record in super().get(job_ids)]


class WakesTooLate(MemoryTransport):
    """A wait forgets what was signalled before it began."""

    def listen(
        self, queues: Sequence[str] = (), jobs: Sequence[str] = (), kinds: Sequence[str] = ()
    ) -> Listener:
        return _Deaf(super().listen(queues, jobs, kinds))


class _Deaf:
    def __init__(self, inner: Listener) -> None:
        self._inner = inner
        self.clear, self.wake, self.close = inner.clear, inner.wake, inner.close

    def wait(self, timeout: float | None) -> bool:
        self._inner.clear()
        return self._inner.wait(0.01)

    def call_back(self, on_change: Callable[[], None]) -> bool:
        self._inner.clear()
        return self._inner.call_back(on_change)


class WorkersShareAJob(Altered):
    """What one worker holds is handed to the next as well."""

    _last: Sequence[Delivery] = ()

    def answer(self, answer: Exchange) -> Exchange:
        again, self._last = self._last, answer.deliveries
        return change(answer, deliveries=answer.deliveries or again)


BUGS: list[tuple[type[MemoryTransport], str]] = [
    (AckWithoutToken, "settle/late_settlement_is_refused"),
    (BatchIsNotAtomic, "idempotency/conflict_rolls_the_whole_batch_back"),
    (BurstsAreTooLarge, "flow_rate/pause_allows_no_more_than_the_burst"),
    (CapacityIsForgotten, "flow_capacity/full_queue_takes_no_more"),
    (CeilingIsOneTooHigh, "lease/ceiling_of_reclaims_is_exact"),
    (DelayIsRounded, "retry/retried_job_is_visible_after_exactly_its_delay"),
    (DeliversExpired, "expiry/expired_job_is_never_delivered"),
    (DependentsNeverSkip, "skipping/every_loss_skips_what_waits"),
    (DropsSilently, "flow_capacity/oldest_of_the_lowest_priority_makes_room"),
    (EnvelopeIsRewritten, "enqueue/envelope_bytes_are_kept_as_they_are"),
    (ExtendAlwaysHolds, "lease/lost_lease_is_reported_and_not_extended"),
    (IgnoresPriority, "priority/higher_priority_comes_first"),
    (KeyLastsForEver, "idempotency/key_is_free_after_its_window"),
    (LimitIsExceeded, "reserve/no_more_than_the_limit_is_reserved"),
    (LimitsAreForgotten, "flow_concurrency/no_more_run_at_once_than_the_limit"),
    (LimitsAreForgotten, "flow_rate/jobs_start_evenly_spaced"),
    (LosesResults, "settle/success_keeps_the_result"),
    (NamedLeaseForEverybody, "leader/named_lease_has_one_owner"),
    (NamesAreForgotten, "named/named_jobs_are_reserved_and_no_others"),
    (NeverForgets, "maintenance/finished_jobs_are_kept_as_long_as_they_say"),
    (NeverReclaims, "lease/ended_lease_makes_the_job_reservable"),
    (NobodyFollowsTheRevoked, "flow_concurrency/revoking_whoever_is_next_lets_another_follow"),
    (OnReceiptIsRedelivered, "lease/on_receipt_job_is_never_redelivered"),
    (PauseIsForgotten, "control/paused_queue_gives_nothing_out"),
    (QuotasAreForgotten, "flow_quota/no_more_of_a_queue_than_its_quota"),
    (ReleaseCounts, "defer/released_job_is_visible_at_once"),
    (ReplayForgetsHistory, "deadletter/replayed_job_starts_anew"),
    (ReplayReusesTokens, "deadletter/settlement_from_before_a_replay_is_refused"),
    (RetryLosesItsPlace, "retry/retried_job_keeps_its_place"),
    (RevokeSparesTheRunning, "revoke/running_job_is_asked_to_stop"),
    (RevokesAnonymously, "revoke/record_says_who_revoked_and_when"),
    (SettlesTwice, "settle/settling_twice_changes_nothing"),
    (TimersAreForgotten, "reserve/next_due_at_is_when_a_lease_ends"),
    (TenantsPushIn, "flow_fair/few_jobs_do_not_wait_for_many"),
    (TenantsAreAllAlike, "flow_fair/weights_are_shares"),
    (TurnsIgnoreWeights, "priority/turns_in_a_batch_follow_the_weights"),
    (TellsNobody, "maintenance/maintain_says_which_jobs_it_ended"),
    (TellsNobody, "workers/reclaim_from_a_worker_counts_like_an_ended_lease"),
    (WritesBlindly, "documents/document_is_written_over_only_by_who_knows_it"),
    (WritesBlindly, "documents/one_of_many_writers_wins"),
    (UnknownIdsAreInvented, "query/unknown_id_has_no_record"),
    (WakesTooLate, "listen/change_after_the_clear_is_not_missed"),
    (WakesTooLate, "listen/call_back_comes_once_for_what_would_end_a_wait"),
    (WorkersShareAJob, "reserve/reserved_job_has_one_holder"),
]


@pytest.mark.parametrize(("bug", "broken"), BUGS, ids=[bug.__name__ for bug, _ in BUGS])
def test_broken_promise_is_reported(bug: type[MemoryTransport], broken: str) -> None:
    def open_store(name: str, clock: Clock) -> MemoryTransport:
        return bug(clock)

    facet = [case for case in cases() if case.facet == broken.partition("/")[0]]
    report = run(open_store, only=facet)
    assert broken in [str(outcome.case) for outcome in report.failures]
    assert all(outcome.detail for outcome in report.failures)


def test_every_facet_passes_without_a_bug() -> None:
    report = run(lambda name, clock: MemoryTransport(clock))
    assert report.ok
    assert report.count(Status.PASSED) > 200
