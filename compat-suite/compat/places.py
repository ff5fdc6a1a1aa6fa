"""Where everything lives."""

from __future__ import annotations

import os
from pathlib import Path

SUITES = Path(__file__).resolve().parents[1]
"""The folder compat-suite/."""
TOP = SUITES.parent
CACHE = Path(os.environ.get("TASKMQ_COMPAT_CACHE") or SUITES / ".cache").absolute()
SDISTS = CACHE / "sdists"
ENVIRONMENTS = CACHE / "environments"
RUNS = CACHE / "runs"

CATALOG = SUITES / "suites.toml"
CONSTRAINTS = SUITES / "constraints"
EXPECTATIONS = SUITES / "expectations"
BASELINES = SUITES / "baselines"
RESULTS = SUITES / "results.json"
HISTORY = SUITES / "history.json"
PAGE = TOP / "docs" / "compatibility.md"
HTML = TOP / "docs" / "compatibility.html"
README = TOP / "README.md"


def short(path: Path) -> str:
    """As a person reads it: relative to where they are, if that is shorter."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
