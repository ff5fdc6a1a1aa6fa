"""Where everything that is wrong is noted. Nothing that watches ever raises: workers and executors
catch exceptions, and would hide the violation."""

from __future__ import annotations

from .journal import Journal
from .rules import Rule, Violation

__all__ = ["Findings"]


class Findings:
    """The violations of one simulation."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.violations: list[Violation] = []

    def complain(self, rule: Rule, text: str, job_id: str | None = None) -> None:
        about = f"job {job_id} {text}" if job_id else text
        self.violations.append(Violation(rule, self.journal.step, about, job_id))
        self.journal.add("!", f"{rule}: {about}")

    def expect(
        self, operation: str, found: object, expected: object, rule: Rule = "answer"
    ) -> None:
        if found != expected:
            self.complain(rule, f"{operation} answered {found}, not {expected}")

    def failed(self, operation: str, error: Exception) -> None:
        """Something was raised that nobody provoked."""
        self.complain("error", f"{operation}: {type(error).__name__}: {error}")
