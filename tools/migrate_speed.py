"""How long taskmq-migrate takes on a synthetic tree, of which a part uses Celery.

    .venv/bin/python tools/migrate_speed.py --files 10000 --jobs 2

Prints the seconds that passed and the seconds of CPU that all processes took, and the first of them
alone, which does its part before and beside the others. On a machine that does nothing else, the
seconds that passed are what a user waits.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path

from taskmq_migrate.model import Target
from taskmq_migrate.project import Run, run
from taskmq_migrate.registry import select
from taskmq_migrate.reports.summary import totals

PLAIN = "import os\n" + "".join(
    f'''

class Thing{number}:
    """A plain class."""

    def __init__(self, name, value=None):
        self.name = name
        self.value = value or os.environ

    def compute(self, items):
        return [each for each in items if each.name != self.name and each.value]
'''
    for number in range(12)
)
HEAD = "from celery import shared_task\nfrom celery.task import {}\n\nfrom .models import Order\n"
TASK = '''

@{0}(bind=True, max_retries=3, default_retry_delay=60)
def process_{1}(self, order_id):
    """Process an order."""
    try:
        order = Order.objects.get(pk=order_id)
        process_{2}.apply_async((order.pk,), countdown=10, queue="slow")
    except Exception as error:
        raise self.retry(exc=error)
'''


def tree(root: Path, files: int, share: int) -> None:
    """One file in ``share`` has tasks; one in five of those imports as old Celery did."""
    for number in range(files):
        folder = root / f"package_{number // 100:03}"
        if number % 100 == 0:
            folder.mkdir()
            (folder / "__init__.py").touch()
        old = number % (share * 5) == 0
        head = HEAD.format("task") if old else HEAD.partition("from celery.task")[0]
        names = ["task" if old else "shared_task"] * 6
        tasks = "".join(TASK.format(name, at, (at + 1) % 6) for at, name in enumerate(names))
        (folder / f"m{number}.py").write_text(PLAIN if number % share else head + tasks)


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure taskmq-migrate on a synthetic tree.")
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--share", type=int, default=20, help="one file in so many uses Celery")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--to", type=Target, choices=list(Target), default=Target.SHIM)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        tree(root, arguments.files, arguments.share)
        started, used, own = time.monotonic(), _cpu(), time.process_time()
        plan = Run(root, (root,), select(arguments.to), False, (), arguments.jobs)
        numbers = totals(run(plan))
        first = f"{time.process_time() - own:.1f} in the first process"
        print(
            f"{time.monotonic() - started:.1f} s, {_cpu() - used:.1f} s of CPU, {first}: {numbers}"
        )
    return 0


def _cpu() -> float:
    both = [resource.getrusage(each) for each in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in both)


if __name__ == "__main__":
    sys.exit(main())
