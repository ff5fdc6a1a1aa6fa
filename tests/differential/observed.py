"""What can be seen of a canvas: applying it, running what there is to run, looking."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from celery.result import AsyncResult, GroupResult

from .canvases import Canvas, applied

Outcome = dict[str, Any]
UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
TASK = re.compile(r"\b\d+\.(?=[a-z])")
SECONDS = 5
STUCK: Outcome = {"stuck": True}
"""Of a canvas in which the worker hangs for ever."""


def run_batch(
    app: Any, canvases: Sequence[Canvas], log: Path, work: Callable[[], None]
) -> list[Outcome]:
    """Apply canvases, let all of their tasks run with ``work``, and see what has become of them."""
    app.set_current()  # empty canvases know no other
    log.write_text("")
    applied = [_applied(app, slot, canvas) for slot, canvas in enumerate(canvases)]
    work()
    ran: defaultdict[int, list[Any]] = defaultdict(list)
    for line in log.read_text().splitlines():
        run = json.loads(line)
        ran[run["slot"]].append(run)
    outcomes = [
        {"error": _text(result, {})} if failed else _outcome(result, ran[slot])
        for slot, (result, failed) in enumerate(applied)
    ]
    found: list[Outcome] = json.loads(json.dumps(outcomes, default=repr))
    return found


def _applied(app: Any, slot: int, canvas: Canvas) -> tuple[Any, bool]:
    try:
        return applied(app, slot, canvas), False
    except Exception as error:
        return error, True


def _outcome(result: Any, ran: list[Any]) -> Outcome:
    names = {run["id"]: f"{run['task']}:{_own(run)}" for run in ran if run["id"]}
    return {
        "result": _described(result, names),
        "get": _got(result, names),
        "ran": sorted(json.dumps(_anonymous(_line(run), names)) for run in ran),
    }


def _own(run: Any) -> Any:
    """What tells a task from the others: the last of its arguments."""
    return json.dumps(run["args"][-1:])


def _line(run: Any) -> Any:
    shown = [run["task"], run["args"]]
    return shown + [{more: run[more]} for more in ("kwargs", "stamps", "retries") if run[more]]


def _described(result: Any, names: dict[str, str]) -> Any:
    """A result to come, its state and value, and those of its parents."""
    if result is None:
        return None
    if not isinstance(
        result, (AsyncResult, GroupResult)
    ):  # a chain of one task that is called runs here and now
        return {"value": _anonymous(result, names)}
    above = {} if result.parent is None else {"parent": _described(result.parent, names)}
    if isinstance(result, GroupResult):
        return {"group": [_described(each, names) for each in result.results], **above}
    state = result.state
    if state == "SUCCESS":
        return {"value": _anonymous(result.result, names), **above}
    if state == "FAILURE":
        return {"error": _text(result.result, names), **above}
    return {"state": state, **above}


def _got(result: Any, names: dict[str, str]) -> Any:
    if not isinstance(result, (AsyncResult, GroupResult)):
        return result and {"value": _anonymous(result, names)}
    if not result.ready():
        return "not ready"
    try:
        return {"value": _anonymous(result.get(timeout=SECONDS), names)}
    except Exception as error:
        return {"error": _text(error, names)}


def _text(error: BaseException, names: dict[str, str]) -> str:
    return str(_anonymous(f"{type(error).__name__}: {error}", names))


def _anonymous(value: Any, names: dict[str, str]) -> Any:
    """With names of tasks for ids, and without slots: another run has others."""
    if isinstance(value, str):
        value = UUID.sub(lambda found: f"<{names.get(found[0], 'id')}>", value)
        return TASK.sub("", value)
    if isinstance(value, (list, tuple)):
        return [_anonymous(each, names) for each in value]
    if isinstance(value, dict):
        return {name: _anonymous(each, names) for name, each in value.items()}
    return value
