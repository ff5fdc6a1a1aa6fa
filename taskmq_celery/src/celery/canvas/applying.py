"""How a canvas runs: stored as one workflow, or here and now."""

from __future__ import annotations

from typing import Any

from kombu.utils.functional import maybe_list

from celery._state import get_current_worker_task
from celery.app.publishing import publish_canvas
from celery.result import EagerResult, GroupResult
from celery.states import IGNORED, REJECTED

from .signatures import Signature, maybe_signature

__all__ = ("app_of", "apply_in_turn", "below_header", "first_of", "launch", "of_one")

ENDS = frozenset({IGNORED, REJECTED})
"""After a task that ended like this nothing of a chain runs."""


def launch(
    canvas: Any,
    args: Any,
    kwargs: Any,
    options: dict[str, Any],
    *,
    add_to_parent: bool = True,
) -> Any:
    """Store the jobs of a canvas, all or none; gives the result to come. The canvas stays as it
    is."""
    canvas = canvas.clone()
    canvas._take_your_time()
    used = canvas._ids_in_use()
    result = canvas.freeze(options.pop("task_id", None))
    if result is None:
        return None
    given = {name: value for name, value in options.items() if value is not None}
    renamed = publish_canvas(canvas.app, canvas, args, kwargs, given, used)
    if renamed:
        _rename(result, renamed)
    parent = get_current_worker_task() if add_to_parent else None
    if parent is not None:
        parent.add_trail(result)
    return result


def of_one(result: Any) -> Any:
    """The result of a group; of ``group(a | group(b, c))`` that of the inner one, as in Celery."""
    return result[0] if len(result) == 1 and isinstance(result[0], GroupResult) else result


def below_header(result: Any) -> Any:
    """The result of the body of a chord: its parent is that of the header, whatever is between."""
    header = first_of(result)
    if header is not result:
        result.parent = of_one(header)
    return result


def _rename(result: Any, ids: dict[str, str]) -> None:
    """Tasks whose ``apply_async`` is overridden may choose another id than they were told."""
    pending = [result]
    while pending:
        each = pending.pop()
        each.id = ids.get(each.id, each.id)
        pending.extend(getattr(each, "results", None) or ())
        if each.parent is not None:
            pending.append(each.parent)


def apply_in_turn(
    canvas: Any, steps: list[Any], args: Any, kwargs: Any, options: dict[str, Any]
) -> Any:
    """Run the steps of a chain here and now; gives the result of the last."""
    options = {**canvas["options"], **options}
    links = maybe_list(options.pop("link", None)) or []
    given = () if canvas["immutable"] else (*(args or ()), *canvas["args"])
    if not steps and canvas.tasks:  # nothing but an empty group
        return canvas.tasks[-1].apply(**options)
    last = None
    for place, step in enumerate(steps, 1):
        task = step.clone(given, kwargs)
        if place == len(steps):
            _link_last(task, links)
        result = task.apply(() if last is None else (last.get(),), **options)
        first_of(result).parent, last = last, result
        if isinstance(result, EagerResult) and result.state in ENDS:
            break
        given, kwargs = (), None
    return last


def _link_last(step: Any, links: list[Any]) -> None:
    """Link to the last task of a chain, or to the last ones, what is linked to the chain."""
    while isinstance(step, Signature.TYPES["chord"]):
        step = step.body
    ends = step.tasks if isinstance(step, Signature.TYPES["group"]) else [step]
    for end in ends:
        for link in links:
            end.link(maybe_signature(link, clone=True))


def app_of(tasks: Any) -> Any:
    """The app of the first of these tasks, or of the first task in that. The first, since a
    generator must not be run for it."""
    if not tasks:
        return None
    first = tasks[0]
    known = getattr(first, "_app", None)
    inner = getattr(first, "tasks", None)
    if known is not None or inner is None:
        return known
    found = app_of(getattr(inner, "tasks", inner))
    return found if found is not None else app_of([getattr(first, "body", None)])


def first_of(result: Any) -> Any:
    """The earliest of a result and its parents."""
    while result.parent is not None:
        result = result.parent
    return result
