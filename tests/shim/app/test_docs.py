"""What the pages in ``docs/celery`` say is so."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from taskmq_celery.config import NOT_USED
from taskmq_celery.settings import SETTINGS

pytestmark = pytest.mark.integration

DOCS = Path(__file__).parents[3] / "docs" / "celery"


def blocks(page: str) -> list[str]:
    """The Python on a page."""
    found = re.findall(
        r"^( *)```python\n(.*?)^ *```$", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL
    )
    return [re.sub(rf"^{indent}", "", code, flags=re.MULTILINE) for indent, code in found]


def run(folder: Path, code: str) -> None:
    environment = {
        **os.environ,
        "CELERY_BROKER_URL": "memory://",
        "CELERY_RESULT_BACKEND": "rpc://",
    }
    subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment, timeout=30, check=True
    )


def test_the_first_program_runs(program: Any) -> None:
    source, calls, _ = blocks("getting-started.md")
    program.write(source, "tasks.py")
    program.ready_worker(app="tasks")
    answers = re.sub(r"^(\w.*get\(.*\))  # (\d+)$", r"assert \1 == \2", calls, flags=re.MULTILINE)
    assert answers.count("assert") == 2
    assert program.ask(f"{answers}\nprint(1)") == 1


def test_the_example_of_a_test_runs(tmp_path: Path) -> None:
    program, _, testing = blocks("getting-started.md")
    (tmp_path / "tasks.py").write_text(program)
    run(tmp_path, testing)


def test_every_setting_without_a_meaning_is_listed_with_its_reason() -> None:
    _, _, listed = (DOCS / "settings.md").read_text().partition("## Without a meaning")
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", listed, re.MULTILINE))
    assert rows == dict(NOT_USED)


def test_only_settings_that_exist_are_described() -> None:
    page = (DOCS / "settings.md").read_text()
    for name in re.findall(r"^\| `(\w+)`", page, re.MULTILINE):
        assert name in SETTINGS
