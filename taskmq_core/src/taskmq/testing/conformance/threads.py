"""Several threads at once, with a deadline and without lost exceptions."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from .checks import BrokenPromise

__all__ = ["PATIENCE", "together"]

PATIENCE = 30.0


def together(body: Callable[[int], None], count: int) -> None:
    """Run ``body(0)`` to ``body(count - 1)`` at the same time. The first exception of any of them
    is raised here; so is a thread that does not end in time."""
    errors: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            body(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(n,), daemon=True) for n in range(count)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + PATIENCE
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    if errors:
        raise errors[0]
    if any(thread.is_alive() for thread in threads):
        raise BrokenPromise(f"a thread did not come back within {PATIENCE:g} seconds")
