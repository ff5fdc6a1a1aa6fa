"""Run a private server, print its URL, and end it on Ctrl-C.

python -m tests.services redis
python -m tests.services postgres --option max_connections=50
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
from collections.abc import Callable, Mapping

from . import (
    Group,
    MissingProgram,
    PgBouncer,
    Postgres,
    RabbitMQ,
    Redis,
    RedisCluster,
    SentinelSet,
    Service,
    ServiceError,
    Standby,
)

Options = Mapping[str, str | int]
# Gives the URL.
Start = Callable[[contextlib.ExitStack, Options], str]


def alone(kind: Callable[[Options], Service | Group]) -> Start:
    def start(stack: contextlib.ExitStack, options: Options) -> str:
        server = kind(options)
        stack.enter_context(server)
        return server.url

    return start


def standby(stack: contextlib.ExitStack, options: Options) -> str:
    primary = stack.enter_context(Postgres(options))
    print(f"primary: {primary.url}")
    return stack.enter_context(Standby(primary)).url


def pgbouncer(stack: contextlib.ExitStack, options: Options) -> str:
    postgres = stack.enter_context(Postgres())
    print(f"behind it: {postgres.url}")
    return stack.enter_context(PgBouncer(postgres, options)).url


KINDS: dict[str, Start] = {
    "cluster": alone(RedisCluster),
    "pgbouncer": pgbouncer,
    "postgres": alone(Postgres),
    "rabbitmq": alone(RabbitMQ),
    "redis": alone(Redis),
    "sentinel": alone(SentinelSet),
    "standby": standby,
}


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.services", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the server, as its configuration file names it",
    )
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    parsed = parse(arguments)
    options = dict(each.partition("=")[::2] for each in parsed.option)
    signals = {signal.SIGINT, signal.SIGTERM}
    try:
        with contextlib.ExitStack() as stack:
            url = KINDS[parsed.kind](stack, options)
            signal.pthread_sigmask(signal.SIG_BLOCK, signals)
            print(url, flush=True)
            signal.sigwait(signals)
    except KeyboardInterrupt:
        return 130
    except (MissingProgram, ServiceError) as reason:
        print(reason, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
