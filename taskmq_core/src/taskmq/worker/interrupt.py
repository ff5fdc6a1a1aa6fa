"""What to tell the store of a job that is cut short because its process ends."""

from __future__ import annotations

from taskmq.envelope import load
from taskmq.errors import MessageError
from taskmq.transport import Defer, Delivery, Nack, Settlement

__all__ = ["cut_short"]


def cut_short(delivery: Delivery) -> Settlement:
    """Visible again at once. The job is not to blame, so neither an attempt nor a delivery is
    counted, however many deployments it meets. One that must not start twice is given up instead.
    """
    try:
        at_most_once = load(delivery.envelope).ack == "on_receipt"
    except MessageError:
        at_most_once = False
    if at_most_once:
        return Nack(delivery, detail="the worker stopped while it ran")
    return Defer(delivery, 0.0)
