"""One run: ``python -m tests.bench.contestants`` with an `Order` in its environment. Prints the
figures as one line of JSON."""

from __future__ import annotations

import importlib
import json

from .base import Order
from .workloads import WORKLOADS


def main() -> None:
    order = Order.current()
    module = importlib.import_module(f"tests.bench.contestants.{order.contestant}")
    queue = module.Queue(order)
    print(json.dumps(WORKLOADS[order.workload](queue, order)), flush=True)


if __name__ == "__main__":
    main()
