"""Which tests trace the processes that they start, and which are traced themselves."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

CONFTEST = Path(__file__).parent.parent / "conftest.py"
NAME = "COVERAGE_PROCESS_CONFIG"
# Set late: this is for the processes that a test starts, not for the one that it runs in.
TEST = f"""
import os, pytest
os.environ["{NAME}"] = "what coverage.py sets"

@pytest.fixture(scope="module", autouse=True)
def process():
    return "{NAME}" in os.environ

def test_it(process, request):
    marked = request.node.get_closest_marker("no_cover") is not None
    assert (process, "{NAME}" in os.environ, marked) == EXPECTED
"""
BY_FOLDER = {
    "conformance": (False, False, False),
    "integration": (True, True, False),
    "shim": (False, False, True),
    "unit": (True, True, False),
}


def test_processes_are_traced_where_the_engine_is_tested(tmp_path: Path) -> None:
    shutil.copy(CONFTEST, tmp_path)
    for folder, expected in BY_FOLDER.items():
        test = tmp_path / folder / f"test_{folder}.py"
        test.parent.mkdir()
        test.write_text(f"EXPECTED = {expected}\n{TEST}")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(CONFTEST.parent.parent)},
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert run.returncode == 0, run.stdout
    assert f"{len(BY_FOLDER)} passed" in run.stdout
