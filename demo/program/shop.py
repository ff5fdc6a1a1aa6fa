"""The other side of the program: it places orders and waits for what becomes of them.

python shop.py day     one order of each kind, as JSON
python shop.py rush N  N orders to pack behind a slow stocktaking: the ids, as JSON
python shop.py wait ID…  what came of these, as JSON
"""

import json
import sys

from orders.celery import app
from orders.tasks import (
    CardDeclined,
    add_shipping,
    charge,
    charge_declined,
    invoice,
    pack,
    price,
    stocktaking,
)

from celery import chain
from celery.exceptions import TimeoutError

WAIT = 30.0
STOCKTAKING_SECONDS = 2.0


def day() -> dict[str, object]:
    """One order of each kind."""
    items = [("tea", 3, 499), ("cup", 2, 750)]
    bill = chain(price.s(items), add_shipping.s("DE"), invoice.s("Ada")).apply_async()
    charged = charge.delay(1)
    packed = pack.apply_async((1,), countdown=0.3)
    declined = charge_declined.delay(2)
    try:
        declined.get(timeout=WAIT)
        failure = "nothing"
    except CardDeclined as error:
        failure = f"{type(error).__name__}: {error}"
    return {
        "bill": bill.get(timeout=WAIT),
        "charged": charged.get(timeout=WAIT),
        "packed": packed.get(timeout=WAIT),
        "failure": failure,
        "state": declined.state,
    }


def rush(orders: int) -> list[str]:
    """A slow task, and many quick ones behind it."""
    slow = stocktaking.delay("A1", STOCKTAKING_SECONDS)
    return [slow.id, *(pack.delay(order).id for order in range(orders))]


def wait(ids: list[str]) -> dict[str, list[object]]:
    """State and value of each; PENDING where nothing came within the time."""
    found = {}
    for task_id in ids:
        result = app.AsyncResult(task_id)
        try:
            value = result.get(timeout=WAIT, propagate=False)
        except TimeoutError:
            value = None
        found[task_id] = [result.state, value if not isinstance(value, Exception) else str(value)]
    return found


def main(command: str, *arguments: str) -> None:
    done = {"day": day, "rush": lambda: rush(int(arguments[0])), "wait": lambda: wait([*arguments])}
    print(json.dumps(done[command]()))


if __name__ == "__main__":
    main(*sys.argv[1:])
