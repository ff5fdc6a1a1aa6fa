"""Compare the shim with the real Celery."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests import services

from .canvases import Canvas
from .generating import generated
from .intended import explained
from .observed import Outcome
from .program import SLOTS
from .shrinking import smallest
from .sides import Side, celery, shim


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--examples", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", action="append", choices=["redis", "sqlite"])
    parser.add_argument("--python", type=Path, required=True)
    parser.add_argument("--shrink", type=int, default=10, help="differences that are made smaller")
    parser.add_argument("--canvas", help="JSON")
    return parser.parse_args(arguments)


class Comparison:
    def __init__(self, theirs: Side, ours: dict[str, Side]) -> None:
        self.theirs, self.ours = theirs, ours
        self.seconds: dict[str, float] = {}

    def run(
        self, canvases: Sequence[Canvas]
    ) -> Iterator[tuple[Canvas, Outcome, dict[str, Outcome]]]:
        for start in range(0, len(canvases), SLOTS):
            batch = canvases[start : start + SLOTS]
            theirs = self.timed("celery", self.theirs, batch)
            ours = {name: self.timed(name, side, batch) for name, side in self.ours.items()}
            for number, canvas in enumerate(batch):
                yield canvas, theirs[number], {name: each[number] for name, each in ours.items()}

    def timed(self, name: str, side: Side, batch: Sequence[Canvas]) -> list[Outcome]:
        started = time.monotonic()
        found: list[Outcome] = json.loads(json.dumps(side.run(batch), default=repr))
        self.seconds[name] = self.seconds.get(name, 0) + time.monotonic() - started
        return found

    def differs(self, canvases: Sequence[Canvas]) -> list[bool]:
        return [wrong(*each) for each in self.run(canvases)]


def wrong(canvas: Canvas, theirs: Outcome, ours: dict[str, Outcome]) -> bool:
    return any(each != theirs and explained(canvas, theirs, each) is None for each in ours.values())


def show(canvas: Canvas, theirs: Outcome, ours: dict[str, Outcome]) -> None:
    print(f"\n{json.dumps(canvas)}")
    for name, each in ours.items():
        for key in sorted({*theirs, *each}):
            if theirs.get(key) != each.get(key):
                print(f"  celery {key}: {json.dumps(theirs.get(key), ensure_ascii=False)}")
                print(f"  {name:6} {key}: {json.dumps(each.get(key), ensure_ascii=False)}")


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="differential-")))
        ours: dict[str, Side] = {}
        for store in options.store or ["redis", "sqlite"]:
            if store == "redis":
                broker = backend = stack.enter_context(services.Redis()).url
            else:
                broker, backend = f"sqlite:///{folder}/jobs.db", "rpc://"
            (folder / store).mkdir()
            ours[store] = stack.enter_context(shim(broker, backend, folder / store))
        comparison = Comparison(stack.enter_context(celery(options.python, folder)), ours)
        if options.canvas:
            canvases = [json.loads(line) for line in options.canvas.splitlines() if line.strip()]
            for each in comparison.run(canvases):
                show(*each)
                print(
                    "  explained by", [explained(each[0], each[1], one) for one in each[2].values()]
                )
            return 0
        found = [
            each
            for each in comparison.run(generated(options.examples, options.seed))
            if wrong(*each)
        ]
        print(f"{len(found)} differ of {options.examples}: {comparison.seconds}", flush=True)
        for each in found:
            print("#", json.dumps(each[0]))
        sys.stdout.flush()
        seen = set()
        for canvas, *_ in found[:: max(1, len(found) // options.shrink)]:
            small = smallest(canvas, comparison.differs)
            if json.dumps(small) not in seen:
                seen.add(json.dumps(small))
                for each in comparison.run([small]):
                    show(*each)
                sys.stdout.flush()
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
