"""A missing server skips a test on a developer's machine and fails it under CI."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

CONFTEST = Path(__file__).parent.parent / "conftest.py"
TESTS = """
from tests import services

class Missing(services.Redis):
    program = "no-such-server"

def test_starts_a_missing_server(start_service):
    start_service(Missing)

def test_needs_a_missing_server(require_server):
    require_server("no-such-server")

def test_needs_a_present_one(require_server):
    assert require_server("sh").is_file()
"""


def run_tests(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    shutil.copy(CONFTEST, folder)
    (folder / "test_needs.py").write_text(TESTS)
    inherited = {name: value for name, value in os.environ.items() if name != "CI"}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(folder)],
        cwd=folder,
        env=inherited | {"PYTHONPATH": str(CONFTEST.parent.parent)} | environment,
        capture_output=True,
        text=True,
        timeout=110,
    )


def test_a_missing_server_skips_the_test_and_ends_the_run_with_one_line(tmp_path: Path) -> None:
    run = run_tests(tmp_path)
    assert run.returncode == 0, run.stdout
    assert "1 passed, 2 skipped" in run.stdout
    line = "2 tests skipped because a server is not installed: no-such-server (2)"
    assert run.stdout.count(line) == 1


def test_under_ci_a_missing_server_fails_the_test(tmp_path: Path) -> None:
    run = run_tests(tmp_path, CI="true")
    assert run.returncode == 1, run.stdout
    assert "2 failed, 1 passed" in run.stdout
    assert "missing server: no-such-server" in run.stdout
