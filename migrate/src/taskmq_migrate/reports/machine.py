"""Reports for programs: JSON of our own, and SARIF 2.1.0."""

from __future__ import annotations

import json
from importlib.metadata import version
from urllib.parse import quote

from taskmq_migrate.model import Status
from taskmq_migrate.project import Result
from taskmq_migrate.registry import all_rules

from .summary import rows, totals

__all__ = ["as_json", "as_sarif"]

LEVELS = {
    Status.CONVERTED: "note",
    Status.UNSAFE: "note",
    Status.REPORTED: "warning",
    Status.MARKED: "warning",
}


def as_json(result: Result) -> str:
    """``totals``, ``files`` and ``findings``."""
    document = {
        "version": 1,
        "totals": totals(result),
        "files": [
            {
                "path": row.path,
                "changed": row.changed,
                "converted": row.converted,
                "marked": row.marked,
                "unsafe": row.unsafe,
                "reported": row.reported,
                "error": row.error or None,
            }
            for row in rows(result)
        ],
        "findings": [
            {
                "path": each.path,
                "line": each.line,
                "column": each.column,
                "rule": each.rule,
                "status": each.status.value,
                "message": each.message,
            }
            for each in result.findings
        ],
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


def as_sarif(result: Result) -> str:
    """For code scanning services."""
    rules = [
        {
            "id": rule.id,
            "shortDescription": {"text": rule.title},
            "fullDescription": {"text": rule.page.why},
            "properties": {"safety": rule.safety.value},
        }
        for rule in all_rules()
    ]
    results = [
        {
            "ruleId": each.rule,
            "level": LEVELS[each.status],
            "message": {"text": f"{each.message} ({each.status.value})"},
            "locations": [_location(each.path, each.line, each.column)],
        }
        for each in result.findings
    ]
    failures = [
        {
            "level": "error",
            "message": {"text": f"{each.path}: {each.error}"},
            "locations": [_location(each.path, 1, 1)],
        }
        for each in result.failed
    ]
    driver = {"name": "taskmq-migrate", "version": version("taskmq-migrate"), "rules": rules}
    run = {
        "tool": {"driver": driver},
        "results": results,
        "invocations": [
            {"executionSuccessful": not failures, "toolExecutionNotifications": failures}
        ],
    }
    document = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [run],
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


def _location(path: str, line: int, column: int) -> dict[str, object]:
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": quote(path)},
            "region": {"startLine": line, "startColumn": column},
        }
    }
