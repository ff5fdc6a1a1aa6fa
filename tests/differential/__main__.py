"""Compare what canvases do on the shim with what they do on the real Celery.

python -m tests.differential --examples 2000 --seed 7    random canvases, on Redis and SQLite
python -m tests.differential --simple ...                without stamps, keywords, empty groups, ...
python -m tests.differential --canvas '{"is": "task", "of": "fail", "tag": 1}'
python -m tests.differential --record 300                what Celery does, for test_recorded.py
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from tests import services

from . import oracle, recorded
from .canvases import Canvas
from .generating import generated, simple
from .intended import DIFFERENCES, explained
from .observed import Outcome
from .program import SLOTS
from .shrinking import smallest
from .sides import Side, celery, shim

STORES = ("redis", "sqlite")
AGAIN = 2
"""Times that Celery is asked again what it makes of a canvas that differs."""

Compared = tuple[Canvas, Outcome, dict[str, Outcome]]


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--examples", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--simple",
        action="store_true",
        help="nothing but success, failure, retries, replacements, links and error callbacks",
    )
    parser.add_argument("--store", action="append", choices=STORES, help="default: both")
    parser.add_argument("--shrink", type=int, default=5, help="differences that are made smaller")
    parser.add_argument("--canvas", action="append", type=json.loads, help="JSON, see canvases.py")
    parser.add_argument("--record", type=int, metavar="N", help="write recorded.jsonl anew")
    parser.add_argument("--python", type=Path, help="one that has Celery; else one is made")
    return parser.parse_args(arguments)


class Comparison:
    """Runs canvases on all sides. ``seconds`` says how long that took."""

    def __init__(self, theirs: Side, ours: dict[str, Side]) -> None:
        self.theirs, self.ours = theirs, ours
        self._beside = ThreadPoolExecutor(1)  # for Celery, which runs in other processes
        self.seconds: Counter[str] = Counter()

    def run(self, canvases: Sequence[Canvas]) -> Iterator[Compared]:
        for start in range(0, len(canvases), SLOTS):
            batch = canvases[start : start + SLOTS]
            coming = self._beside.submit(self._timed, "celery", self.theirs, batch)
            ours = {name: self._timed(name, side, batch) for name, side in self.ours.items()}
            theirs = coming.result()
            for number, canvas in enumerate(batch):
                yield canvas, theirs[number], {name: each[number] for name, each in ours.items()}

    def _timed(self, name: str, side: Side, batch: Sequence[Canvas]) -> list[Outcome]:
        started = time.monotonic()
        found = side.run(batch)
        self.seconds[name] += int(1000 * (time.monotonic() - started))
        return found

    def differs(self, canvases: Sequence[Canvas]) -> list[bool]:
        return [self.is_wrong(*each) for each in self.run(canvases)]

    def is_wrong(self, canvas: Canvas, theirs: Outcome, ours: dict[str, Outcome]) -> bool:
        """Whether there is a difference that is not meant to be."""
        return differences(canvas, theirs, ours) is None

    def races(self, found: Sequence[Compared]) -> list[bool]:
        """Which of these depend on what comes first within Celery: it does something else when it
        is asked again, and once there is no difference that is not meant to be."""
        raced = [False] * len(found)
        for _ in range(AGAIN):
            for start in range(0, len(found), SLOTS):
                batch = found[start : start + SLOTS]
                again = self._timed("celery", self.theirs, [canvas for canvas, *_ in batch])
                for number, ((canvas, theirs, ours), other) in enumerate(
                    zip(batch, again, strict=True), start
                ):
                    same = theirs == other or self.is_wrong(canvas, other, ours)
                    raced[number] = raced[number] or not same
        return raced


def differences(canvas: Canvas, theirs: Outcome, ours: dict[str, Outcome]) -> set[str] | None:
    """The names of those that are meant to be; ``None`` if there is another one."""
    names = [explained(canvas, theirs, each) for each in ours.values()]
    return None if None in names else {name for found in names for name in found or ()}


def show(canvas: Canvas, theirs: Outcome, ours: dict[str, Outcome]) -> None:
    print(f"\n{json.dumps(canvas)}")
    for name, each in ours.items():
        for key in sorted({*theirs, *each}):
            if theirs.get(key) != each.get(key):
                print(f"  celery {key}: {json.dumps(theirs.get(key), ensure_ascii=False)}")
                print(f"  {name:6} {key}: {json.dumps(each.get(key), ensure_ascii=False)}")
        print(f"  {name:6} meant to be: {explained(canvas, theirs, each)}", flush=True)


def compare(comparison: Comparison, canvases: Sequence[Canvas], shrink: int) -> int:
    """Exit status."""
    names: Counter[str] = Counter()
    differ: list[Compared] = []
    equal = 0
    for number, each in enumerate(comparison.run(canvases)):
        if number and number % SLOTS == 0:
            print(f"{number} of {len(canvases)}: {len(differ)} differ", file=sys.stderr, flush=True)
        known = differences(*each)
        if known is None:
            differ.append(each)
        else:
            names.update(known)
            equal += not known
    raced = comparison.races(differ)
    wrong = [each for each, race in zip(differ, raced, strict=True) if not race]
    meant = len(canvases) - equal - len(differ)
    seconds = ", ".join(f"{name} {ms / 1000:.0f} s" for name, ms in comparison.seconds.items())
    print(f"{len(canvases)} canvases ({seconds}): {equal} equal, {meant} that are meant to differ,")
    print(f"{sum(raced)} races within Celery, {len(wrong)} unexplained differences")
    for name, count in names.most_common():
        print(f"{count:6} {name}")
    for (canvas, *_), race in zip(differ, raced, strict=True):
        if race:
            print(f"  race {json.dumps(canvas)}")
    wrong.sort(key=lambda each: len(json.dumps(each[0])))
    for number, each in enumerate(wrong):
        small = smallest(each[0], comparison.differs) if number < shrink else None
        show(*(each if small is None else next(iter(comparison.run([small])))))
    return 1 if wrong else 0


def record(theirs: Side, count: int, seed: int) -> None:
    """The examples of all differences, those that were chosen, and random canvases that are not
    too long."""
    random = [
        each for each in generated(4 * count, seed) if len(json.dumps(each)) < recorded.LONGEST
    ]
    examples = [difference.example for difference in DIFFERENCES] + recorded.chosen()
    canvases = examples + random[:: max(1, len(random) // count)][: count - len(examples)]
    batches = [canvases[start : start + SLOTS] for start in range(0, len(canvases), SLOTS)]
    outcomes = [outcome for batch in batches for outcome in theirs.run(batch)]
    recorded.save(list(zip(canvases, outcomes, strict=True)))


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="differential-")))
        theirs = stack.enter_context(celery(options.python or oracle.python(), folder))
        if options.record:
            record(theirs, options.record, options.seed)
            return 0
        ours: dict[str, Side] = {}
        for store in options.store or STORES:
            if store == "redis":
                url = stack.enter_context(services.Redis()).url
                urls = (url, url)
            else:
                urls = (f"sqlite:///{folder}/jobs.db", "rpc://")
            (folder / store).mkdir()
            ours[store] = stack.enter_context(shim(*urls, folder / store))
        comparison = Comparison(theirs, ours)
        if options.canvas:
            for each in comparison.run(options.canvas):
                show(*each)
            return 0
        canvases = generated(options.examples, options.seed, simple if options.simple else dict)
        return compare(comparison, canvases, options.shrink)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
