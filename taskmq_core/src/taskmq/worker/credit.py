"""Adaptive credit: how many deliveries a worker should hold. Pure arithmetic.

Holding much makes batches, and batches make throughput. Holding little keeps jobs available to
other workers and urgent ones in front. Both at once: hold what the slots will have finished
within a short horizon, judging by how long jobs took of late. Jobs longer than the horizon are
held one per slot, and of short ones as many as make a good batch.
"""

from __future__ import annotations

from taskmq.hooks import MOST_HELD
from taskmq.pools.threads import SHORT

__all__ = ["GATHER", "HORIZON", "Credit"]

HORIZON = 0.02
"""Seconds of work to hold in advance."""
GATHER = 0.001
"""Seconds for which outcomes may wait for others to be settled with them."""
GATHER_ALL = 0.01
"""The same where nothing shall run on. A worker that is held up for longer makes its next batch
beside the exchange, which holds it up again: so this is twice what it needs on a slow machine."""
OWN = 20e-6
"""Seconds that a worker needs for a job, beside the job itself, on a slow machine."""
WEIGHT = 0.02
"""What one more job counts in the moving average of durations: little, so that one long job
among short ones does not send them all back. (Slots that hold a long one are counted apart.)"""


class Credit:
    """The numbers for one worker. Durations are seconds.

    ``stuck`` is the number of slots whose job has run for longer than twice the horizon: they will
    not take another delivery soon, whatever the average says. ``beside``: jobs run in other
    processes, beside an exchange without being in its way.
    """

    def __init__(
        self,
        slots: int,
        prefetch: int | None,
        horizon: float = HORIZON,
        *,
        beside: bool = False,
    ) -> None:
        self.slots = slots
        self.long = 2 * horizon
        """From this age on a running job counts as long."""
        self.mean: float | None = None
        """Average duration of a job; ``None`` before the first one has finished."""
        self._beside = beside
        self._horizon = horizon
        self._longest = 10 * horizon  # longer is as good as this, and sooner forgotten
        self._prefetch = prefetch
        self._ceiling = max(slots, MOST_HELD) if prefetch is None else prefetch

    def resize(self, slots: int) -> None:
        """From now on so many slots."""
        self.slots = slots
        if self._prefetch is None:
            self._ceiling = max(slots, MOST_HELD)

    def observe(self, count: int, total: float) -> None:
        """``count`` jobs took ``total`` seconds together."""
        batch = min(total / count, self._longest)
        if self.mean is None:
            self.mean = batch
        else:
            self.mean += (batch - self.mean) * (1 - (1 - WEIGHT) ** count)

    def target(self, stuck: int = 0) -> int:
        """How many deliveries to hold, running ones included."""
        ahead = self._per_slot() * (self.slots - stuck)
        return min(self._ceiling, self.slots + ahead)

    def surplus(self, held: int, unstarted: int, stuck: int) -> int:
        """How many of the unstarted deliveries another worker should have instead.

        None while they will all start within twice the horizon: a small error of the average must
        not send jobs back and forth. ``held`` counts running and unstarted ones.
        """
        moving = self.slots - stuck
        if moving and self.mean is not None and unstarted * self.mean <= self.long * moving:
            return 0
        return max(0, min(unstarted, held - self.target(stuck)))

    def batch(self, running: int, stuck: int = 0) -> tuple[int, float]:
        """How many outcomes are worth waiting for before settling them, and for how many seconds.

        1, hence no wait, unless several will come in that time. Short jobs would take the
        interpreter from the exchange, and it from them, at every call of the system: of those,
        nearly all that the pool has are waited for. (Any slot but one may have a long one.)
        """
        moving = running - stuck
        if self.mean is None or moving < 2:
            return 1, 0.0
        some = max(1, moving * 3 // 4)
        if self.mean < SHORT and not self._beside:
            nearly_all = max(some, moving - self.slots + 1)
            return nearly_all, min(GATHER_ALL, (self.mean + OWN) * moving)
        if self.mean * 2 > GATHER * min(moving, self.slots):
            return 1, 0.0
        return some, GATHER

    def _per_slot(self) -> int:
        if self.mean is None:
            return 0
        if self.mean * self._ceiling <= self._horizon:
            return self._ceiling
        return int(self._horizon / self.mean)
