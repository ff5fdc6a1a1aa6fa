"""What other processes do in the tests of the SQLite transport: ``sqlite_child.py ROLE [URL]``.

Each says what it did on its standard output, one line at a time.
"""

import random
import sys

from taskmq.clock import SystemClock
from taskmq.codec import Payload
from taskmq.envelope import Envelope, Sealed, seal
from taskmq.ids import new_id
from taskmq.transport import Ack, Reservation
from taskmq.transports.sqlite import SqliteTransport, from_url

WANTED = Reservation(queues={"q": 1}, worker="child", lease=0.2, limit=20)


def job() -> Sealed:
    return seal(Envelope(v=1, id=new_id(), task="demo.task", queue="q"), 1 << 20)


def say(line: str) -> None:
    print(line, flush=True)


def add(store: SqliteTransport) -> None:
    """Enqueue one job each time that a line comes in."""
    say("ready")
    for _ in sys.stdin:
        say(store.enqueue([job()])[0].job_id)


def open_each() -> None:
    """Open each store whose URL comes in, and enqueue one job there."""
    for line in sys.stdin:
        store = from_url(line.strip(), clock=SystemClock())
        say(store.enqueue([job()])[0].job_id)
        store.close()


def churn(store: SqliteTransport) -> None:
    """For ever: enqueue a few jobs, say their ids, and run what there is."""
    settlements: list[Ack] = []
    while True:
        ids = [answer.job_id for answer in store.enqueue([job() for _ in range(5)])]
        say(" ".join(ids))
        deliveries = store.exchange(settlements, WANTED).deliveries
        kept = deliveries[: random.randrange(len(deliveries) + 1)]
        settlements = [Ack(delivery, Payload("json", b"1")) for delivery in kept]


ROLES = {"add": add, "churn": churn}

if __name__ == "__main__":
    role, *urls = sys.argv[1:]
    if role == "open-each":
        open_each()
    else:
        store = from_url(urls[0], clock=SystemClock())
        ROLES[role](store)
        store.close()
