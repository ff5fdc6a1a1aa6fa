"""Watch Celery programs work on the engine: one SQLite file each, no server.

Celery's own examples come out of its released sdist and are not touched; then a larger program of
ours; then a worker is killed in the middle of a task. Exit status 0 only if every promise was kept.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from acts import App, Check, crash, next_steps, program, program_place, tutorial
from rich.console import Console
from sdist import EXAMPLES, SDIST, VERSION, Example, Unavailable, fetch, unpack
from show import Show
from stage import Failed, Stage

CACHE = Path(__file__).parent.parent / ".cache" / "demo"


def main() -> int:
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what follows is cleared up
    console = Console(width=None if sys.stdout.isatty() else 110, highlight=False)
    show = Show(console, verbose=not options.quiet)
    root = Path(tempfile.mkdtemp(prefix="taskmq-demo-"))
    stage = Stage(root, show.worker_said, show.happened)
    began = time.monotonic()
    try:
        with show.busy(f"fetching {SDIST}, once"):
            sdist = fetch(options.cache)
        files = unpack(sdist, root)
        show.opening(files, sdist)
        checks = list(perform(stage, show, files))
    except (Failed, Unavailable, TimeoutError) as error:
        show.broken(str(error))
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        stage.clear()
        if options.keep:
            show.kept(root)
        else:
            shutil.rmtree(root, ignore_errors=True)
    show.summary(checks, time.monotonic() - began)
    return 0 if all(check.kept for check in checks) else 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave the folder with the databases")
    parser.add_argument("--quiet", action="store_true", help="do not print what the workers say")
    parser.add_argument(
        "--cache", type=Path, default=CACHE, help="where the sdist is kept (%(default)s)"
    )
    return parser.parse_args()


def perform(stage: Stage, show: Show, files: list[Example]) -> Iterator[Check]:
    """All acts, in order."""
    show.act(
        "examples/app", f"{WORKER} myapp worker -l INFO", "its task takes 10 s: on with the others"
    )
    app = App(stage)
    place = program_place(stage)
    acts: list[tuple[str, str, str, Callable[[], Iterator[Check]]]] = [
        (
            "examples/tutorial",
            f"{WORKER} tasks worker -l INFO",
            "one task",
            lambda: tutorial(stage),
        ),
        (
            *("examples/next-steps", f"{WORKER} proj worker -l INFO", "a package, a chain"),
            lambda: next_steps(stage),
        ),
        (
            *("demo/program", f"{WORKER} orders worker -l INFO -Q celery,warehouse"),
            *("retries, a chain, a failure, a second queue", lambda: program(stage, place)),
        ),
        (
            *("SIGKILL", f"{WORKER} orders worker -l INFO -Q celery,warehouse"),
            *("in the middle of a task, with more waiting", lambda: crash(stage, place)),
        ),
        ("examples/app", "", "what came of it", app.finish),
    ]
    for title, command, about, act in acts:
        show.act(title, command, about)
        for check in act():
            show.counted()
            show.check(check)
            yield check
    for example in EXAMPLES:
        mine = [file for file in files if file.example == example]
        same = sum(file.is_unmodified() for file in mine)
        promise = f"files that are as in celery {VERSION}"
        yield Check(example, promise, f"{len(mine)} of {len(mine)}", f"{same} of {len(mine)}")


WORKER = "celery -A"

if __name__ == "__main__":
    sys.exit(main())
