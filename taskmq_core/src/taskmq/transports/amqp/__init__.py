"""Jobs delivered by RabbitMQ, or by any other broker that kombu knows, and kept in another
transport.

Read `delivery` first (one exchange), then `publisher` and `consumer` (the two sides of the broker),
`topology` (what there is at the broker) and `notice` (the message). ``docs/reference/amqp.md`` says
what users need to know.
"""

from __future__ import annotations

from taskmq.clock import Clock
from taskmq.errors import ConfigError
from taskmq.plugins import open_transport
from taskmq.transport import Transport

from .options import parse

__all__ = ["from_url"]


def from_url(url: str, *, clock: Clock) -> Transport:
    """The transport of a broker and a state store. docs/reference/amqp.md has the options.

    Opens the state store; the broker is connected to when it is needed first. Raises `ConfigError`
    and what the state store raises.

    >>> from_url("amqp://guest:guest@localhost/?state=sqlite:///jobs.db", clock=SystemClock())
    """
    options = parse(url)
    try:
        from .transport import AmqpTransport
    except ImportError as error:
        scheme = url.partition("://")[0]
        raise ConfigError(
            f"{scheme}:// needs kombu, which cannot be imported ({error}): "
            "pip install 'taskmq-py[amqp]'"
        ) from error
    state = open_transport(options.state, clock=clock)
    try:
        return AmqpTransport(options, state, clock)
    except BaseException:
        state.close()
        raise
