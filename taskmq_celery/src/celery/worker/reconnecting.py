"""What is told of a broker that cannot be reached, while it is tried again."""

from __future__ import annotations

from typing import Any

from celery.utils.log import get_logger

__all__ = ("Tries",)

logger = get_logger("celery.worker.consumer.consumer")

CANNOT_CONNECT = "consumer: Cannot connect to %s: %s.\n%s\n"
NEXT = "Will retry using next failover."
AGAIN = "Trying again in {:.2f} seconds... ({})"


class Tries:
    """Told of each try that fails (kombu's ``errback``), it writes one line; ``most``: how many
    there will be, if that is limited."""

    def __init__(self, connection: Any, most: int | None) -> None:
        self.connection, self.most = connection, most
        self.count = 0

    def __call__(self, error: BaseException, interval: float) -> None:
        then = NEXT
        if interval:
            self.count += 1
            tries = f"{self.count}/{self.most}" if self.most else self.count
            then = AGAIN.format(interval, tries)
        logger.error(CANNOT_CONNECT, self.connection.as_uri(), one_line(error), then)


def one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
