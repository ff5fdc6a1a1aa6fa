"""Time limits of tasks, for jobs that have none: whoever submitted them knew only a name."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from taskmq.envelope import Limits, limited, limits_of
from taskmq.transport import Delivery

__all__ = ["TimeLimits"]


class TimeLimits:
    """A job's own limits go first, each by itself. Kept by any thread, applied by the loop's."""

    def __init__(self) -> None:
        self._of: dict[str, Limits] = {}

    def keep(self, task: str, limits: Limits) -> None:
        """From now on; limits that are none end what was kept."""
        if any(limits):
            self._of[task] = limits
        else:
            self._of.pop(task, None)

    def apply(self, deliveries: Sequence[Delivery]) -> Sequence[Delivery]:
        """The same, with limits."""
        return [self._limited(delivery) for delivery in deliveries] if self._of else deliveries

    def _limited(self, delivery: Delivery) -> Delivery:
        task, own = limits_of(delivery.envelope)
        kept = self._of.get(task)
        if kept is None or all(own):
            return delivery
        soft, hard = own[0] or kept[0], own[1] or kept[1]
        if soft and hard and soft >= hard:  # one is its own: the other would contradict it
            soft, hard = own
        if (soft, hard) == own:
            return delivery
        envelope = limited(delivery.envelope, (soft, hard))
        return msgspec.structs.replace(delivery, envelope=envelope)
