"""What every store can do, as its transport declares it, and how much of the conformance suite
that makes apply.

``python -m tests.integration.store_table`` writes docs/reference/stores.md. That the cases pass
which apply is checked where they run: tests/conformance.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from taskmq.config import CAPABILITIES
from taskmq.plugins import open_transport
from taskmq.testing.conformance import cases
from taskmq.transport import Capabilities

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs/reference/stores.md"
STATE = "state=sqlite:///{folder}/jobs.db"
STORES = {
    "memory": "memory://",
    "SQLite": "sqlite:///{folder}/jobs.db",
    "Redis": "redis://localhost",
    "PostgreSQL": "postgresql://localhost/jobs",
    "RabbitMQ": f"amqp://localhost/?{STATE}",
    "other brokers": f"kombu+filesystem://localhost/?{STATE}",
}
"""The columns. Nothing is connected: transports do that with their first call."""
VARIANTS = {
    "PostgreSQL, `pooler=transaction`": (
        "PostgreSQL",
        "postgresql://localhost/jobs?pooler=transaction",
    ),
    "RabbitMQ, `queue_type=quorum`": (
        "RabbitMQ",
        f"amqp://localhost/?queue_type=quorum&{STATE}",
    ),
}
"""URLs that change what their store can do, with the column that they are a variant of."""
WORDS = {
    "durable": "jobs survive the end of every process",
    "shared": "several processes may use it at once",
    "global_priority": "strict priorities across all queues of a worker",
    "fifo": "first in, first out within a queue and priority",
    "weighted_turns": "queues take turns by weight",
    "dependencies": "jobs wait for other jobs",
    "workflows": "conditions, growing and delegating in workflows",
    "workflow_pauses": "workflows can be paused",
    "wakeups": "who waits is woken: no polling",
    "limits": "rate and concurrency limits over all workers",
    "capacity": "queues of a limited length",
    "fair_turns": "the keys of a queue take turns (`fair_key`)",
    "transactional": "jobs join a transaction of the caller's",
}
BROKERS = ("RabbitMQ", "other brokers")
YES, NO = "yes", "–"  # noqa: RUF001  # a dash, as in the other pages


@contextmanager
def declared(urls: Mapping[str, str]) -> Iterator[dict[str, Capabilities]]:
    """What the transports of these URLs say that they can do."""
    with tempfile.TemporaryDirectory() as folder:
        opened = {name: open_transport(url.format(folder=folder)) for name, url in urls.items()}
        yield {name: transport.capabilities for name, transport in opened.items()}
        for transport in opened.values():
            transport.close()


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def abilities(stores: Mapping[str, Capabilities]) -> str:
    rows = [
        [f"`{name}`", WORDS[name], *(YES if getattr(can, name) else NO for can in stores.values())]
        for name in CAPABILITIES
    ]
    return table(["", "", *stores], rows)


def conformance(stores: Mapping[str, Capabilities]) -> str:
    """How many cases apply, and for want of what the others do not."""
    total = len(cases())
    rows = []
    for name, can in stores.items():
        missing = Counter(need for case in cases() for need in case.missing(can))
        why = ", ".join(f"{count} need `{need}`" for need, count in missing.most_common())
        applying = len(cases(can))
        rows.append([name, str(applying), str(total - applying), why or NO])
    return table(["", "checked", "left out", "because"], rows)


def limitations(stores: Mapping[str, Capabilities]) -> str:
    """In the stores' own words; of brokers and variants only what is not said before."""
    state = stores["SQLite"].limitations
    lines = []
    for name, can in stores.items():
        known = stores[VARIANTS[name][0]].limitations if name in VARIANTS else ()
        if name in BROKERS or name in VARIANTS:
            known += state
        lines.append(f"- **{name}**")
        own = [text for text in can.limitations if text not in known]
        lines += [f"  - {text}" for text in own or ["none"]]
    return "".join(f"{line}\n" for line in lines)


def page() -> str:
    with declared(STORES) as stores, declared({n: url for n, (_, url) in VARIANTS.items()}) as more:
        return (
            f"{(HERE / 'store_table_head.md').read_text()}"
            "\n## What each can do\n\n"
            "The names are those of `Config.require`. A broker stands before SQLite here: all that "
            "is not about order or wake-ups\nis what the store behind it can do.\n\n"
            f"{abilities(stores)}"
            "\n## What they cannot do\n\n"
            "In their own words, as `taskmq status` prints them. Of brokers: what they add to the "
            "limitations of the store behind them.\n\n"
            f"{limitations({**stores, **more})}"
            "\n## What is checked\n\n"
            f"The suite has {len(cases())} cases. One is left out only where the store declares "
            "that its promise does not apply. Of those\nfor other brokers, the ones about delivery "
            "are run, with Redis and with files as the broker. A case may need several things.\n\n"
            f"{conformance(stores)}"
        )


def main() -> None:
    PAGE.write_text(page())
    print(f"wrote {os.path.relpath(PAGE)}")


if __name__ == "__main__":
    main()
