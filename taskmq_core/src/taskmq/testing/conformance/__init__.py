"""What every transport promises, as cases that run against any of them.

From a shell, against a URL or somebody else's transport::

    python -m taskmq.testing.conformance sqlite:////tmp/check.db
    python -m taskmq.testing.conformance mypackage.tests:open_store

From a script, where ``open_store(name, clock)`` opens the store of that name, empty if new::

    report = run(open_store)
    for outcome in report.failures:
        print(outcome.case, outcome.detail)

From pytest::

    @pytest.mark.parametrize("case", cases(), ids=str)
    def test_conformance(case):
        outcome = run_case(case, "mypackage.tests:open_store")
        if outcome.error:
            raise outcome.error

A case is left out where the transport's `Capabilities` say that its promise does not apply,
never because of the transport's name.
"""

from __future__ import annotations

from .case import Case
from .checks import BrokenPromise
from .subject import OpenStore, Subject
from .suite import Outcome, Report, Status, cases, run, run_case

__all__ = [
    "BrokenPromise",
    "Case",
    "OpenStore",
    "Outcome",
    "Report",
    "Status",
    "Subject",
    "cases",
    "run",
    "run_case",
]
