"""What happens to an order. Every run is written down, so that runs can be counted."""

import os
import time
from pathlib import Path

from celery import shared_task
from celery.utils.log import get_task_logger

logger = get_task_logger(__name__)


class CardDeclined(Exception):
    """The bank said no. It will say no again."""


class GatewayDown(Exception):
    """The bank did not answer. Later it will."""


def note(line: str) -> None:
    """Append to the journal; one write, so that several processes may."""
    journal = os.open(os.environ["ORDERS_JOURNAL"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.write(journal, f"{line}\n".encode())
    finally:
        os.close(journal)


@shared_task
def price(items):
    """The first of a chain: cents for a list of (name, how many, cents each)."""
    return sum(count * cents for _, count, cents in items)


@shared_task
def add_shipping(cents, country):
    return cents + (490 if country == "DE" else 1290)


@shared_task
def invoice(cents, customer):
    return f"{customer} pays {cents / 100:.2f} EUR"


@shared_task(bind=True, autoretry_for=(GatewayDown,), max_retries=5, default_retry_delay=0.2)
def charge(self, order):
    """Works at the third attempt."""
    logger.info("charging order %s, attempt %d", order, self.request.retries + 1)
    if self.request.retries < 2:
        raise GatewayDown(f"no answer from the bank for order {order}")
    return {"order": order, "attempts": self.request.retries + 1}


@shared_task
def charge_declined(order):
    raise CardDeclined(f"order {order}: card declined")


@shared_task
def pack(order):
    """Runs from the queue `warehouse`."""
    note(f"packed {order} {os.getpid()}")
    return order


@shared_task(bind=True)
def stocktaking(self, shelf, seconds):
    """Slow enough for its worker to be killed in the middle."""
    note(f"began {shelf} {self.request.hostname}")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.05)
    note(f"ended {shelf} {self.request.hostname}")
    return {"shelf": shelf, "redelivered": self.request.delivery_info["redelivered"]}


def journal() -> list[str]:
    """Every line so far."""
    path = Path(os.environ["ORDERS_JOURNAL"])
    return path.read_text().splitlines() if path.exists() else []
