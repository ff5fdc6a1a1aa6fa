"""``celery amqp``: talk to the broker by hand, through kombu."""

from __future__ import annotations

import pprint
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from celery.bin.base import CLIContext, handle_preload_options
from celery.bin.types import JSON_OBJECT
from celery.exceptions import CeleryCommandException
from celery.platforms import EX_UNAVAILABLE

__all__ = ("amqp",)


class AMQPContext:
    """``ctx.obj`` of the commands here: the connection, and a channel on it."""

    def __init__(self, cli_context: CLIContext) -> None:
        self.cli_context = cli_context
        self.connection = cli_context.app.connection_for_write()
        self._channel: Any = None

    @property
    def app(self) -> Any:
        return self.cli_context.app

    @property
    def channel(self) -> Any:
        """Connected when it is first needed."""
        if self._channel is None:
            self.cli_context.echo(f"-> connecting to {self.connection.as_uri()}.")
            self._channel = self.connection.channel()
            self.cli_context.echo("-> connected.")
        return self._channel

    def close(self) -> None:
        self.connection.close()

    @contextmanager
    def doing(self, what: str) -> Iterator[Any]:
        """The channel. What it refuses is one line and exit code 69, else there is an ``OK``."""
        try:
            yield self.channel
        except Exception as error:
            # A channel that has refused something is closed.
            self._channel = None
            reason = " ".join(str(error).split()) or repr(error)
            raise CeleryCommandException(f"{what}: {reason}", EX_UNAVAILABLE) from error
        self.cli_context.secho(self.cli_context.OK)


@click.group(invoke_without_command=True)
@click.pass_context
@handle_preload_options
def amqp(ctx: click.Context) -> None:
    """Talk to the broker by hand; without a command, one after the other.

    The exchanges and queues of brokers other than RabbitMQ are kombu's imitations.
    """
    if not isinstance(ctx.obj, AMQPContext):
        ctx.obj = AMQPContext(ctx.obj)
        ctx.call_on_close(ctx.obj.close)
    if ctx.invoked_subcommand is None:
        ctx.invoke(repl)


def command(name: str) -> Callable[[Callable[..., Any]], click.Command]:
    """One of the commands, with the context as its first argument."""

    def decorate(function: Callable[..., Any]) -> click.Command:
        return amqp.command(name=name)(click.pass_obj(function))

    return decorate


@command("exchange.declare")
@click.argument("exchange")
@click.argument("type")
@click.argument("passive", type=bool, default=False)
@click.argument("durable", type=bool, default=True)
@click.argument("auto_delete", type=bool, default=False)
def exchange_declare(
    amqp_context: AMQPContext,
    exchange: str,
    type: str,
    passive: bool,
    durable: bool,
    auto_delete: bool,
) -> None:
    """Make an exchange."""
    with amqp_context.doing("exchange.declare") as channel:
        channel.exchange_declare(
            exchange=exchange, type=type, passive=passive, durable=durable, auto_delete=auto_delete
        )


@command("exchange.delete")
@click.argument("exchange")
@click.argument("if_unused", type=bool, default=False)
def exchange_delete(amqp_context: AMQPContext, exchange: str, if_unused: bool) -> None:
    """Delete an exchange."""
    with amqp_context.doing("exchange.delete") as channel:
        channel.exchange_delete(exchange=exchange, if_unused=if_unused)


@command("queue.bind")
@click.argument("queue")
@click.argument("exchange")
@click.argument("routing_key")
def queue_bind(amqp_context: AMQPContext, queue: str, exchange: str, routing_key: str) -> None:
    """Let a queue get what an exchange has for a routing key."""
    with amqp_context.doing("queue.bind") as channel:
        channel.queue_bind(queue=queue, exchange=exchange, routing_key=routing_key)


@command("queue.declare")
@click.argument("queue")
@click.argument("passive", type=bool, default=False)
@click.argument("durable", type=bool, default=True)
@click.argument("auto_delete", type=bool, default=False)
def queue_declare(
    amqp_context: AMQPContext, queue: str, passive: bool, durable: bool, auto_delete: bool
) -> None:
    """Make a queue, and tell how much waits in it."""
    with amqp_context.doing("queue.declare") as channel:
        found = channel.queue_declare(
            queue=queue, passive=passive, durable=durable, auto_delete=auto_delete
        )
        amqp_context.cli_context.echo(
            f"queue:{found.queue} messages:{found.message_count} consumers:{found.consumer_count}"
        )


@command("queue.delete")
@click.argument("queue")
@click.argument("if_unused", type=bool, default=False)
@click.argument("if_empty", type=bool, default=False)
def queue_delete(amqp_context: AMQPContext, queue: str, if_unused: bool, if_empty: bool) -> None:
    """Delete a queue with what waits in it."""
    with amqp_context.doing("queue.delete") as channel:
        gone = channel.queue_delete(queue=queue, if_unused=if_unused, if_empty=if_empty)
        amqp_context.cli_context.echo(f"{gone or 0} messages deleted.")


@command("queue.purge")
@click.argument("queue")
def queue_purge(amqp_context: AMQPContext, queue: str) -> None:
    """Delete what waits in a queue."""
    with amqp_context.doing("queue.purge") as channel:
        gone = channel.queue_purge(queue=queue)
        amqp_context.cli_context.echo(f"{gone} messages deleted.")


@command("basic.get")
@click.argument("queue")
@click.argument("no_ack", type=bool, default=False)
def basic_get(amqp_context: AMQPContext, queue: str, no_ack: bool) -> None:
    """Get one message; `basic.ack` takes it out."""
    with amqp_context.doing("basic.get") as channel:
        message = channel.basic_get(queue, no_ack=no_ack)
        if message is None:
            amqp_context.cli_context.echo("No messages in queue. basic.publish something.")
        else:
            amqp_context.cli_context.echo(_shown(message))


def _shown(message: Any) -> str:
    told = {
        "body": message.body,
        "properties": message.properties,
        "delivery_info": message.delivery_info,
        "delivery_tag": message.delivery_tag,
        "headers": getattr(message, "headers", {}),
    }
    return pprint.pformat(told)


@command("basic.publish")
@click.argument("msg")
@click.argument("exchange")
@click.argument("routing_key")
@click.argument("mandatory", type=bool, default=False)
@click.argument("immediate", type=bool, default=False)
@click.option("--headers", type=JSON_OBJECT, default="{}", help="Headers of the message.")
def basic_publish(
    amqp_context: AMQPContext,
    msg: str,
    exchange: str,
    routing_key: str,
    mandatory: bool,
    immediate: bool,
    headers: dict[str, Any],
) -> None:
    """Send a text."""
    with amqp_context.doing("basic.publish") as channel:
        message = channel.prepare_message(msg, content_type="text/plain", headers=headers)
        channel.basic_publish(
            message,
            exchange=exchange,
            routing_key=routing_key,
            mandatory=mandatory,
            immediate=immediate,
        )


@command("basic.ack")
@click.argument("delivery_tag")
def basic_ack(amqp_context: AMQPContext, delivery_tag: str) -> None:
    """Take out a message that `basic.get` gave."""
    tag = int(delivery_tag) if delivery_tag.isdecimal() else delivery_tag
    with amqp_context.doing("basic.ack") as channel:
        channel.basic_ack(tag)


@amqp.command(name="repl")
@click.pass_context
def repl(ctx: click.Context) -> None:
    """Take one command after the other."""
    from click_repl import repl as take_commands  # slow, and used here only

    take_commands(ctx)
