"""`all`: many runs beside each other, interrupted and gone on with, and once more what failed."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from compat import commands, work
from compat.catalog import CELERY, read_catalog
from compat.environments import SHIM, Environment
from compat.everything import Everything, Progress, show_plan, verdict_of
from compat.plan import Item, items_of, known_to_fail, starts
from compat.results import PASSED
from compat.runner import Interrupted
from rich.console import Console
from tests.compat.conftest import CATALOG

if TYPE_CHECKING:
    from tests.compat.conftest import Bench


def item(name: str, seconds: float, seats: int = 1) -> Item:
    suite = dataclasses.replace(read_catalog().suite("unit"), name=name)
    return Item(work.Request(suite, Environment(SHIM, "1.0"), processes=seats), seconds)


def test_runs_start_as_seats_get_free() -> None:
    long, short, last = item("long", 100), item("short", 50), item("last", 20)
    found, end = starts([long, short, last], jobs=2)
    assert found == [(0, long), (0, short), (50, last)]
    assert end == 100


def test_runs_of_several_processes_go_one_after_the_other() -> None:
    wide, other = item("wide", 30, seats=2), item("other", 20, seats=2)
    one, two, three = item("one", 100), item("two", 60), item("three", 10)
    found, end = starts([one, wide, other, two, three], jobs=4)
    assert found == [(0, wide), (0, one), (0, two), (30, other), (50, three)]
    assert end == 100


def test_a_run_that_needs_every_seat_gets_them() -> None:
    wide, one = item("wide", 30, seats=3), item("one", 100)
    assert starts([one, wide], jobs=3) == ([(0, wide), (30, one)], 130)


def test_a_run_never_has_more_processes_than_there_are_seats() -> None:
    catalog = read_catalog()
    made = {SHIM: Environment(SHIM, "5.7.0")}
    items = items_of(catalog, made, [], jobs=3, stretch=1.0)
    assert max(each.seats for each in items) == 3
    assert starts(items, jobs=3)[1] > 0
    listed = {(each.request.suite.name, each.request.pair) for each in items}
    wanted = [each for each in catalog.suites.values() if not each.checkout]
    assert listed == {(each.name, pair) for each in wanted for pair in each.pairs or ("",)}


def test_a_plan_says_how_long_it_takes() -> None:
    said = io.StringIO()
    show_plan(Console(file=said, width=200), [item("long", 1200), item("short", 600)], jobs=1)
    assert "+20 min" in said.getvalue()
    assert "2 runs in about 30 min with 1 processes" in said.getvalue()


def test_dry_run_runs_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "carry_out", None)
    assert commands.main(["all", "--dry-run", "flower"]) == commands.OK
    assert "flower on celery" in capsys.readouterr().out


class Whole:
    """The seeded suite, twice: as two runs of `all`."""

    def __init__(self, bench: Bench, folder: Path) -> None:
        self.folder = folder
        other = dataclasses.replace(bench.suite, name="other")
        self.items = [
            Item(bench.request(), 1.0),
            Item(bench.request(suite=other), 1.0),
        ]
        self.said = io.StringIO()

    def make(self) -> Everything:
        console = Console(file=self.said, width=200)
        return Everything(CATALOG, console, 2, fresh=False, where=self.folder)


@pytest.fixture
def whole(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Whole:
    monkeypatch.setattr(work, "revision", lambda: "1")
    return Whole(bench, tmp_path / "runs")


def test_every_run_has_a_result_and_is_done_once(bench: Bench, whole: Whole) -> None:
    ran = bench.sources / "ran"
    bench.seed(f"def test_a(): open({str(ran)!r}, 'a').write('a')\n")
    whole.make().run(whole.items)
    assert ran.read_text() == "aa"
    for each in whole.items:
        found = work.last_run(each.request.suite.name, "", each.request.environment)
        assert found is not None
        assert found.outcome("test_seeded.py::test_a") == PASSED
    whole.make().run(whole.items)
    assert ran.read_text() == "aa"
    assert "goes on where it was interrupted, after 2 runs" in whole.said.getvalue()
    whole.make().clear()
    assert not Progress(whole.folder / "all.json", "1").has(whole.items[0])


def test_another_commit_begins_anew(
    bench: Bench, whole: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.seed("def test_a(): pass\n")
    whole.make().run(whole.items[:1])
    monkeypatch.setattr(work, "revision", lambda: "2")
    whole.make().run(whole.items[:1])
    assert "goes on" not in whole.said.getvalue()


def test_an_interruption_ends_every_run(
    bench: Bench, whole: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.seed("import time\ndef test_a(): pass\ndef test_hangs(): time.sleep(1000)\n")
    everything = whole.make()
    real, ended = work.carry_out, []

    def ending(*arguments: object, **options: object) -> None:
        try:
            real(*arguments, **options)  # type: ignore[arg-type]
        except Interrupted as error:
            ended.append(error)
            raise

    monkeypatch.setattr(work, "carry_out", ending)
    monkeypatch.setattr(work, "limits", lambda request, baseline: lambda test: 1000.0)
    monkeypatch.setattr("compat.everything.wait", interrupt_when(whole))
    with pytest.raises(KeyboardInterrupt):
        everything.run(whole.items)
    assert len(ended) == 2


def interrupt_when(whole: Whole) -> object:
    """As if Ctrl-C was pressed once both runs have finished a test."""

    def wait(*arguments: object, **options: object) -> tuple[set[object], set[object]]:
        journals = [each.request.folder / "journal" for each in whole.items]
        if all(each.exists() and "test_a" in each.read_text() for each in journals):
            raise KeyboardInterrupt
        return set(), set()

    return wait


def test_what_failed_beside_others_is_run_once_more_alone(bench: Bench, whole: Whole) -> None:
    mark = bench.sources / "mark"
    bench.seed(
        "from pathlib import Path\n"
        f"mark = Path({str(mark)!r})\n"
        "def test_a(): pass\n"
        "def test_b():\n"
        "    first = not mark.exists()\n"
        "    mark.touch()\n"
        "    assert not first\n"
    )
    bench.passes_on_celery(["test_a", "test_b"])
    everything, items = whole.make(), whole.items[:1]
    everything.run(items)
    assert not judged(items[0])
    everything.run_again(items)
    assert judged(items[0])
    assert bench.found().flaky() == ["test_seeded.py::test_b"]


def test_what_is_known_to_fail_is_named(bench: Bench) -> None:
    bench.passes_on_celery(["test_a", "test_b"])
    bench.expect(test_b="missing")
    assert known_to_fail(bench.request()) == {"test_seeded.py::test_b"}
    on_celery = bench.request(environment=Environment(CELERY, "1.0"))
    assert known_to_fail(on_celery) == frozenset()


def judged(item: Item) -> bool:
    request = item.request
    run = work.last_run(request.suite.name, "", request.environment)
    assert run is not None
    verdict = verdict_of(request.suite.name, "", request.environment, run)
    assert verdict is not None
    return verdict.is_as_expected
