"""Runs the codemod on files that a test writes down, and what came of them."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from taskmq_migrate.model import Target
from taskmq_migrate.project import Result, Run, run
from taskmq_migrate.registry import select
from taskmq_migrate.rule import AnyRule
from taskmq_migrate.writing import write


@dataclass(frozen=True)
class Migrated:
    """What a run made of some files."""

    files: dict[str, str]
    result: Result

    @property
    def text(self) -> str:
        """The content of the only file."""
        (text,) = self.files.values()
        return text

    def messages(self) -> list[str]:
        return [f"{each.rule} {each.status.value}" for each in self.result.findings]


def migrate(
    files: Mapping[str, str],
    *,
    rules: Sequence[AnyRule] | None = None,
    to: str = "shim",
    only: tuple[str, ...] = (),
    unsafe: bool = False,
    jobs: int = 1,
    clean_markers: bool = False,
) -> Migrated:
    """Write the files into a folder, apply the rules, and read them back."""
    chosen = tuple(rules) if rules is not None else select(Target(to), only)
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        root = Path(folder)
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
        result = run(Run(root, (root,), chosen, unsafe, (), jobs, clean_markers))
        assert write(root, result.changes) == []
        after = {name: (root / name).read_bytes().decode() for name in files}
    return Migrated(after, result)


def shim(text: str, path: str = "tasks.py", **options: object) -> str:
    """One file, moved to the shim."""
    return migrate({path: text}, **options).text  # type: ignore[arg-type]  # passed on


@contextmanager
def worker(app: str, folder: Path, environ: Mapping[str, str]) -> Iterator[None]:
    """A worker of an app in a folder; it has to end well."""
    command = [sys.executable, "-m", "taskmq", "-A", app, "worker"]
    with (folder / "worker.log").open("w") as log:
        running = subprocess.Popen(
            command, cwd=folder, env=environ, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        yield
    finally:
        running.terminate()
        assert running.wait(30) == 0, (folder / "worker.log").read_text()
