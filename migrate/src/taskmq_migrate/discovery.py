"""Which files of a tree are looked at, and which of those hold anything for the rules."""

from __future__ import annotations

import fnmatch
import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from .kinds import kind_of
from .model import Kind
from .problems import Refused
from .rule import AnyRule

__all__ = ["Candidate", "Filter", "find_files", "is_git_tree"]

SKIPPED = frozenset(
    {
        ".eggs",
        ".git",
        ".hg",
        ".mypy_cache",
        ".nox",
        ".pytest_cache",
        ".ruff_cache",
        ".svn",
        ".taskmq-migrate",
        ".tox",
        "__pycache__",
        "node_modules",
        "site-packages",
    }
)
Candidate = tuple[str, Kind]


def is_git_tree(root: Path) -> bool:
    """Whether a folder belongs to a git checkout."""
    return any((each / ".git").exists() for each in (root, *root.parents))


def find_files(root: Path, paths: Sequence[Path], exclude: Iterable[str] = ()) -> Iterator[str]:
    """The files below ``paths``, relative to ``root``, sorted; raises `Refused`.

    In a git checkout, what git ignores is left out, unless it is named itself. Links are never
    followed.
    """
    patterns = list(exclude)
    found: set[str] = set()
    for path in paths:
        if not path.exists():
            raise Refused(f"{path} does not exist: name a file or folder of the project")
        if path.is_dir():
            found.update(_inside(root, path))
        else:
            found.add(_relative(root, path))
    for name in sorted(found):
        if not any(_matches(name, each) for each in patterns):
            yield name


def _relative(root: Path, path: Path) -> str:
    try:
        return path.resolve().relative_to(root.resolve()).as_posix()
    except ValueError:
        raise Refused(f"{path} is outside {root}: run from a folder that holds both") from None


def _matches(name: str, pattern: str) -> bool:
    pattern = pattern.rstrip("/")
    return fnmatch.fnmatch(name, pattern) or fnmatch.fnmatch(name, f"{pattern}/*")


def _inside(root: Path, folder: Path) -> Iterator[str]:
    listed = _listed_by_git(folder) if is_git_tree(folder.resolve()) else None
    names = listed if listed is not None else _walked(folder)
    prefix = _relative(root, folder)
    for name in names:
        yield name if prefix == "." else f"{prefix}/{name}"


def _listed_by_git(folder: Path) -> list[str] | None:
    """What git tracks or would track; None where it cannot say."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        run = subprocess.run(command, cwd=folder, capture_output=True, check=True)  # git is on PATH
    except (OSError, subprocess.CalledProcessError):
        return None
    names = [os.fsdecode(each) for each in run.stdout.split(b"\0") if each]
    kept = [each for each in names if SKIPPED.isdisjoint(each.split("/")[:-1])]
    return [each for each in kept if _is_plain(folder / each)] or None


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _walked(folder: Path) -> Iterator[str]:
    for current, folders, files in os.walk(folder):
        here = Path(current)
        folders[:] = sorted(
            each
            for each in folders
            if each not in SKIPPED and not (here / each / "pyvenv.cfg").exists()
        )
        for name in sorted(files):
            if _is_plain(here / name):
                yield (here / name).relative_to(folder).as_posix()


class Filter:
    """Looks at bytes, not at syntax: whether a file can hold anything for some rules."""

    def __init__(self, rules: Iterable[AnyRule]) -> None:
        words: dict[Kind, set[bytes]] = {}
        for rule in rules:
            for kind in rule.kinds:
                words.setdefault(kind, set()).update(each.encode() for each in rule.words)
        self._patterns = {
            kind: re.compile(b"|".join(re.escape(each) for each in sorted(found)))
            for kind, found in words.items()
        }

    def wants(self, kind: Kind, raw: bytes) -> bool:
        pattern = self._patterns.get(kind)
        return pattern is not None and pattern.search(raw) is not None

    def candidate(self, root: Path, name: str) -> tuple[Kind | None, bytes]:
        """Kind and content of a file; no kind where no rule could be about it."""
        kind = kind_of(name)
        if kind is None:
            if "." in name.rpartition("/")[2]:
                return None, b""
            with (root / name).open("rb") as file:
                kind = kind_of(name, file.readline(80))
            if kind is None:
                return None, b""
        if kind not in self._patterns:
            return None, b""
        return kind, (root / name).read_bytes()
