"""A whole run: find the files, gather the facts, rewrite; in one process or several."""

from __future__ import annotations

import multiprocessing
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path, PurePosixPath
from typing import Protocol, TypeVar

from .discovery import Filter, find_files
from .engine import Finding, Outcome, open_document, rewrite, unmark
from .facts import Facts, ModuleFacts
from .gather import gather
from .model import Kind, Status
from .problems import Unreadable
from .pythonfile import PythonFile
from .registry import find_rule
from .rule import AnyRule
from .textcoding import decode

__all__ = ["Change", "Result", "Run", "run"]

T = TypeVar("T")
R = TypeVar("R")
FEW = 24
"""Files that are done sooner in one process than a second one starts."""


@dataclass(frozen=True)
class Run:
    """What is asked for. ``root`` is what paths are relative to."""

    root: Path
    paths: tuple[Path, ...]
    rules: tuple[AnyRule, ...]
    unsafe: bool = False
    exclude: tuple[str, ...] = ()
    jobs: int = 1
    clean_markers: bool = False


@dataclass(frozen=True)
class Change:
    """A file that changes."""

    path: str
    before: bytes
    after: bytes


@dataclass
class Result:
    """What became of a run: files and sites add up."""

    seen: int = 0
    outcomes: list[Outcome] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)

    @property
    def findings(self) -> list[Finding]:
        return [each for outcome in self.outcomes for each in outcome.findings]

    @property
    def failed(self) -> list[Outcome]:
        return [each for each in self.outcomes if each.error]

    def count(self, status: Status) -> int:
        return sum(each.status is status for each in self.findings)


Progress = Callable[[str, int, int], None]


def silent(what: str, done: int, total: int) -> None:
    """Progress that nobody watches."""


def run(plan: Run, progress: Progress = silent) -> Result:
    """Look at every file and say what would change. Nothing is written; raises `Refused`."""
    result = Result()
    chosen = Filter(plan.rules)
    names: list[str] = []
    passed: list[tuple[str, Kind]] = []
    rest: list[str] = []
    files = list(find_files(plan.root, plan.paths, plan.exclude))
    for number, name in enumerate(files):
        progress("reading", number, len(files))
        try:
            kind, raw = chosen.candidate(plan.root, name)
        except OSError as error:
            result.outcomes.append(Outcome(name, error=f"cannot be read: {error.strerror}"))
            continue
        if kind is None:
            continue
        result.seen += 1
        names.append(name)
        if (b"taskmq-migrate TMQ" in raw) if plan.clean_markers else chosen.wants(kind, raw):
            passed.append((name, kind))
        elif kind is Kind.PYTHON:
            rest.append(name)
    python = [name for name, kind in passed if kind is Kind.PYTHON]
    with _pool(plan.jobs, len(passed)) as spread:
        facts = Facts()
        if not plan.clean_markers:
            facts, more = _facts(plan, python, rest, spread, progress)
            passed += [(name, Kind.PYTHON) for name in more]
        ids = tuple(each.id for each in plan.rules)
        work = partial(_rewrite, plan.root, facts, ids, plan.unsafe, plan.clean_markers)
        for number, (before, outcome) in enumerate(spread(work, sorted(passed))):
            progress("rewriting", number, len(passed))
            result.outcomes.append(outcome)
            if outcome.after is not None:
                result.changes.append(Change(outcome.path, before, outcome.after))
    result.outcomes.sort(key=lambda each: each.path)
    result.changes.sort(key=lambda each: each.path)
    return result


class Spread(Protocol):
    """Does something with many items, and gives the results in their order."""

    def __call__(self, work: Callable[[T], R], items: Sequence[T]) -> Iterable[R]: ...


@contextmanager
def _pool(jobs: int, files: int) -> Iterator[Spread]:
    """A way to do something with many files, in order: here, or in processes of their own."""
    if jobs <= 1 or files <= FEW:
        yield lambda work, items: map(work, items)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        size = max(1, min(16, files // (jobs * 4)))
        yield lambda work, items: pool.map(work, items, chunksize=size)


def _facts(
    plan: Run,
    python: list[str],
    rest: list[str],
    spread: Spread,
    progress: Progress,
) -> tuple[Facts, list[str]]:
    """The facts, and the files that were found relevant because of them.

    A file that never says Celery may use an app of another file's: it is looked at if it imports
    from a module that holds one.
    """
    modules: list[ModuleFacts] = []
    wave, more = python, list[str]()
    while wave:
        fresh: list[ModuleFacts] = []
        for number, found in enumerate(spread(partial(_gather, plan.root), wave)):
            progress("gathering facts", number, len(wave))
            if found is not None:
                fresh.append(found)
        modules += fresh
        facts = Facts(modules)
        offers = [(_stem(each), names) for each in fresh if (names := _offers(facts, each))]
        stems = frozenset(stem for stem, _ in offers)
        names = frozenset[str]().union(*(names for _, names in offers))
        wave = [name for name in rest if _may_use(stems, names, _read(plan.root / name))]
        rest = [name for name in rest if name not in set(wave)]
        more += wave
    return Facts(modules), more


def _offers(facts: Facts, module: ModuleFacts) -> frozenset[str]:
    """The apps, tasks and task classes that others could import from a module."""
    found = []
    for name in module.names:
        full = f"{module.module}.{name}"
        if facts.is_app(full) or facts.is_task(full) or facts.is_task_class(full):
            found.append(name)
    return frozenset(found)


def _stem(module: ModuleFacts) -> str:
    return module.module.rpartition(".")[2]


def _may_use(stems: frozenset[str], names: frozenset[str], text: bytes) -> bool:
    """Whether a file imports from a module that offers something, and says a name of those."""
    return bool(stems and names and _importing(stems).search(text) and _saying(names).search(text))


@lru_cache(maxsize=4)
def _importing(stems: frozenset[str]) -> re.Pattern[bytes]:
    one_of = b"|".join(re.escape(each.encode()) for each in sorted(stems))
    return re.compile(
        rb"(?m)^\s*(?:from\s+[\w.]*\b(?:%s)\s+import|(?:from|import)\s.*\b(?:%s)\b)"
        % (one_of, one_of)
    )


@lru_cache(maxsize=4)
def _saying(names: frozenset[str]) -> re.Pattern[bytes]:
    return re.compile(rb"\b(?:%s)\b" % b"|".join(each.encode() for each in sorted(names)))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _gather(root: Path, name: str) -> ModuleFacts | None:
    """The facts of one file; None where it cannot be read, which the rewriting reports."""
    try:
        text, _ = decode(_read(root / name), Kind.PYTHON)
        file = open_document(name, Kind.PYTHON, text, Facts())
    except Unreadable:
        return None
    if not isinstance(file, PythonFile):
        return None
    return replace(gather(file), depth=_depth(root, name))


def _depth(root: Path, name: str) -> int:
    """How many parts the name of a module has at least, by the packages around it."""
    path = PurePosixPath(name)
    depth = 0 if path.name == "__init__.py" else 1
    folder = path.parent
    while (root / folder / "__init__.py").exists():
        depth += 1
        if folder == folder.parent:
            break
        folder = folder.parent
    return max(depth, 1)


def _rewrite(
    root: Path,
    facts: Facts,
    ids: tuple[str, ...],
    unsafe: bool,
    clean_markers: bool,
    item: tuple[str, Kind],
) -> tuple[bytes, Outcome]:
    name, kind = item
    try:
        raw = (root / name).read_bytes()
    except OSError as error:
        return b"", Outcome(name, error=f"cannot be read: {error.strerror}")
    if clean_markers:
        return raw, unmark(name, kind, raw)
    rules = [find_rule(each) for each in ids]
    return raw, rewrite(name, kind, raw, facts, rules, unsafe)
