"""Every example in the documentation runs, and says what the page says that it says.

On one page, in order, in one directory and one namespace:

* ``python`` is executed; if its first line is ``# name.py``, it is written to that file instead;
* ``pycon`` is a doctest;
* ``console``: what follows ``$`` is run by bash, and must print the lines below it;
* ``json`` must be JSON. Other languages are there to be looked at.

``…`` in an expected output stands for anything, also for several lines.
"""

import doctest
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"
ELSEWHERE = {"howto/testing-your-tasks.md"}  # tests/unit/test_testing_howto.py
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# (\w+\.py)\n")
CHECKER = doctest.OutputChecker()
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass
class Block:
    language: str
    text: str
    line: int


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(match[1], match[2], text.count("\n", 0, match.start()) + 1)
        for match in BLOCK.finditer(text)
    ]


PAGES = [
    page
    for page in sorted(DOCS.rglob("*.md"))
    if str(page.relative_to(DOCS)) not in ELSEWHERE and page.relative_to(DOCS).parts[0] != "celery"
]
WITH_BLOCKS = [page for page in PAGES if blocks(page)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty directory, as a reader would start in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if not name.startswith(("taskmq", "encodings", "_")):
            del sys.modules[name]


class Page:
    """Runs the blocks of one page, one after the other."""

    def __init__(self, path: Path, folder: Path) -> None:
        self.path = path
        self.folder = folder
        self.namespace: dict[str, Any] = {"__name__": "page"}
        binaries = str(Path(sys.executable).parent)
        self.environ = {**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}"}

    def run(self, block: Block) -> None:
        runners: dict[str, Callable[[Block], object]] = {
            "python": self.python,
            "pycon": self.pycon,
            "console": self.console,
            "json": lambda block: json.loads(block.text),
        }
        if block.language in runners:
            runners[block.language](block)

    def python(self, block: Block) -> None:
        if match := FILE.match(block.text):
            (self.folder / match[1]).write_text(block.text)
            return
        source = "\n" * block.line + block.text  # so that a traceback names the line of the page
        exec(compile(source, str(self.path), "exec"), self.namespace)  # noqa: S102  # our own pages

    def pycon(self, block: Block) -> None:
        text = block.text.replace("…", "...")
        test = doctest.DocTestParser().get_doctest(
            text, self.namespace, self.path.name, str(self.path), block.line
        )
        report: list[str] = []
        runner = doctest.DocTestRunner(optionflags=FLAGS)
        runner.run(test, out=report.append, clear_globs=False)
        assert not runner.failures, "".join(report)
        self.namespace = test.globs

    def console(self, block: Block) -> None:
        for part in block.text.split("$ ")[1:]:
            command, _, expected = part.partition("\n")
            if command.startswith("export "):
                name, _, value = command.removeprefix("export ").partition("=")
                self.environ[name] = value
                continue
            run = subprocess.run(
                ["bash", "-c", command],
                cwd=self.folder,
                env=self.environ,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=50,
            )
            wanted = expected.replace("…", "...")
            assert CHECKER.check_output(wanted, run.stdout, FLAGS), (
                f"{self.path.name}: $ {command}\n{run.stdout}"
            )


@pytest.mark.parametrize("path", WITH_BLOCKS, ids=lambda path: str(path.relative_to(DOCS)))
def test_the_examples_of_a_page(path: Path, folder: Path) -> None:
    page = Page(path, folder)
    for block in blocks(path):
        page.run(block)


LINK = re.compile(r"\]\(([^)#:]*)(#[\w-]+)?\)")


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as they are made on GitHub."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(DOCS)))
def test_the_links_of_a_page(path: Path) -> None:
    for target, anchor in LINK.findall(path.read_text()):
        linked = (path.parent / target).resolve() if target else path
        assert linked.exists(), f"{path.name} links to {target}"
        if anchor:
            assert anchor[1:] in anchors(linked), f"{path.name} links to {target}{anchor}"
