"""What a broker and a state store can do together."""

from __future__ import annotations

import msgspec

from taskmq.transport import Capabilities

from .broker import Broker

__all__ = ["capabilities_of"]

ORDER = (
    "the broker decides the order of delivery: priorities and first in, first out hold for what "
    "waits at the broker, not over all that workers have been sent; `fair` keys take no turns"
)


def capabilities_of(broker: Broker, state: Capabilities) -> Capabilities:
    """Durability, sharing, limits and dependencies are those of the state store; the order is the
    broker's. The store's wake-ups are still there where the broker has to be polled as well."""
    return msgspec.structs.replace(
        state,
        global_priority=False,
        fifo=False,
        weighted_turns=False,
        fair_turns=False,
        wakeups=state.wakeups and broker.is_amqp,
        limitations=(ORDER, *_of_broker(broker), *state.limitations),
    )


def _of_broker(broker: Broker) -> tuple[str, ...]:
    options = broker.options
    if broker.is_amqp:
        if options.queue_type == "quorum":
            return ("quorum queues: no priorities at the broker",)
        if options.max_priority < 18:
            steps = options.max_priority + 1
            return (f"the 19 priorities share {steps} at the broker (max_priority)",)
        return ()
    missing = ["no publisher confirms: the broker's client decides when a message is sent"]
    if not broker.top_priority:
        missing.append("no priorities at the broker")
    missing.append("no delays at the broker: delayed jobs come from the state store")
    missing.append(
        "no wake-up by the broker: workers ask it every 50 ms while they wait, and are woken by "
        "the state store"
    )
    return tuple(missing)
