"""What a hook has taken of the deliveries of a worker: held here, out of the pool's way."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from taskmq.transport import Delivery, Settlement

from .inbox import Inbox

__all__ = ["Take", "Taken"]

Take = Callable[[Sequence[Delivery]], Collection[Delivery]]
"""Offers deliveries to the hooks; gives those that they take (`taskmq.hooks.WorkerHook.take`)."""


class Taken:
    """At most ``most`` at once, if nobody reserves more than `room` allows. Everything but the
    inbox belongs to the loop's thread."""

    def __init__(self, inbox: Inbox, take: Take | None = None, most: int = 0) -> None:
        self._inbox = inbox
        self._take = take
        self._most = most
        self._held: dict[int, Delivery] = {}  # by identity, as the keeper has them

    def __len__(self) -> int:
        return len(self._held)

    def room(self, wanted: int) -> int:
        """How many of ``wanted`` deliveries may be reserved."""
        return max(0, min(wanted, self._most - len(self._held))) if self._held else wanted

    def sift(self, deliveries: Sequence[Delivery]) -> Sequence[Delivery]:
        """Those that nobody takes."""
        taken = self._take(deliveries) if self._take else ()
        if not taken:
            return deliveries
        theirs = {id(delivery): delivery for delivery in taken}
        self._held.update(theirs)
        return [delivery for delivery in deliveries if id(delivery) not in theirs]

    def settled(self) -> list[Settlement]:
        """What was said of some, which are not held any more; of those that got lost, nothing."""
        return [one for one in self._inbox.take_settled() if self.drop(one.delivery)]

    def started(self) -> list[Delivery]:
        """Those that are to run after all, which are not held any more."""
        return [one for one in self._inbox.take_started() if self.drop(one)]

    def drop(self, delivery: Delivery) -> bool:
        """Hold it no more; whether it was held."""
        return self._held.pop(id(delivery), None) is not None

    def drop_all(self) -> list[Delivery]:
        """All that are held, which they are not any more."""
        held, self._held = list(self._held.values()), {}
        return held
