"""Canvases as JSON, and what is made of that.

A canvas is a dict: ``is`` says what it is, ``of`` what it is made of.

| is | of |
|---|---|
| task | the name of a task in `program`; ``tag`` is its argument, or for ``become`` a canvas |
| chain, or, group | canvases; of a group, ``lazy`` makes it a generator |
| chord | canvases, and ``body`` |
| map, starmap, chunks | the name of a task, and ``items`` |

Further keys, each may be missing: ``args`` and ``kwargs`` of a task are given to it as a partial,
``given`` to the whole canvas when it is applied, ``immutable``, ``ignored`` (its result), ``links``
(canvases), ``errbacks`` (how each is made), ``stamp`` (as a keyword), ``visitor`` (a stamp by a
visitor), ``json`` (it goes through JSON). ``call``: keywords, links and error callbacks that are
given when the whole canvas is applied. ``called``: with ``canvas(…)``, no ``apply_async``.
"""

from __future__ import annotations

import functools
import json
import operator
from typing import Any

from celery import chain, chord, group
from celery.canvas import StampingVisitor, maybe_signature

Canvas = dict[str, Any]

CHUNK = 2
"""Items in a chunk."""


class Marking(StampingVisitor):
    """Stamps all that it is shown."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def on_signature(self, sig: Any, **headers: Any) -> dict[str, Any]:
        return {"mark": self.mark, "stamped_headers": ["mark"]}


def applied(app: Any, slot: int, canvas: Canvas) -> Any:
    """The result of a canvas that is applied."""
    call = canvas.get("call", {})
    options = {
        "link": [built(app, slot, each) for each in call.get("links", ())],
        "link_error": [errback(app, slot, each) for each in call.get("errbacks", ())],
    }
    given = {name: value for name, value in options.items() if value}
    made = built(app, slot, canvas)
    if canvas.get("called"):
        return made(*canvas.get("given", ()), **call.get("kwargs", {}))
    return made.apply_async(tuple(canvas.get("given", ())), call.get("kwargs"), **given)


def built(app: Any, slot: int, canvas: Canvas) -> Any:
    """The signature that a canvas describes, of the tasks of a slot."""
    made = _made(app, slot, canvas)
    if canvas.get("args") or canvas.get("kwargs"):
        made = made.clone(tuple(canvas.get("args", ())), canvas.get("kwargs"))
    for link in canvas.get("links", ()):
        made.link(built(app, slot, link))
    for style in canvas.get("errbacks", ()):
        made.on_error(errback(app, slot, style))
    if canvas.get("immutable"):
        made.set(immutable=True)
    if canvas.get("ignored"):
        made.set(ignore_result=True)
    if canvas.get("stamp"):
        made.stamp(mark=canvas["stamp"])
    if canvas.get("visitor"):
        made.stamp(Marking(canvas["visitor"]))
    if canvas.get("json"):
        made = maybe_signature(json.loads(json.dumps(made)), app=app)
    return made


def errback(app: Any, slot: int, style: str) -> Any:
    """``new``: called where the task fails; ``old``: sent, with the id; ``fixed``: gets nothing."""
    if style == "new":
        return app.tasks[f"{slot}.told"].s("new")
    task = app.tasks[f"{slot}.note"]
    return task.s("old") if style == "old" else task.si("fixed")


def _made(app: Any, slot: int, canvas: Canvas) -> Any:
    kind, of = canvas["is"], canvas["of"]
    if kind == "task":
        return app.tasks[f"{slot}.{of}"].s(canvas["tag"])
    if kind in ("map", "starmap", "chunks"):
        method = getattr(app.tasks[f"{slot}.{of}"], kind)
        return (
            method(canvas["items"], CHUNK).group() if kind == "chunks" else method(canvas["items"])
        )
    parts = [built(app, slot, each) for each in of]
    if kind == "chain":
        return chain(*parts, app=app) if not parts else chain(*parts)
    if kind == "or":
        return functools.reduce(operator.or_, parts)
    members = (each for each in parts) if canvas.get("lazy") else parts
    if kind == "group":
        return group(members, app=app)
    return chord(members, built(app, slot, canvas["body"]), app=app)
