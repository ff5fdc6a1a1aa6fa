"""The headers in a canvas: what is in each, and what waits for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from .canvases import Canvas
from .reading import (
    SEVERAL,
    alone,
    ends_as_group,
    group_at_the_end,
    is_group,
    is_nothing,
    members,
)


class Header(NamedTuple):
    """``canvas``: the chord or chain that it is in. ``members``: with those of groups among them.
    ``behind``: all that waits for it, also what is around."""

    canvas: Canvas
    members: list[Canvas]
    behind: list[Canvas]


def headers(canvas: Canvas, after: Sequence[Canvas] = ()) -> Iterator[Header]:
    """Of all chords, and of groups of several that something follows."""
    links = [*canvas.get("links", ()), *canvas.get("call", {}).get("links", ())]
    for link in links:
        yield from headers(link)
    after = [*links, *after]
    if canvas["is"] == "chord":
        behind = [canvas["body"], *after]
        yield Header(canvas, flat(canvas["of"]), behind)
        for member in canvas["of"]:
            yield from headers(member, behind)
        yield from headers(canvas["body"], after)
    elif canvas["is"] in ("chain", "or"):
        for number, step in enumerate(canvas["of"], 1):
            behind = [*canvas["of"][number:], *after]
            ending = flat(members(group_at_the_end(step))) if is_group(step) else []
            if number < len(canvas["of"]) and len(ending) > 1:
                yield Header(canvas, ending, behind)
            yield from headers(step, behind)
    elif canvas["is"] == "group":
        for member in canvas["of"]:
            yield from headers(member, after)
    elif canvas["is"] == "task" and canvas["of"] == "become":
        yield from headers(canvas["tag"], after)


def flat(canvases: Iterable[Canvas]) -> list[Canvas]:
    """The members of a group, with those of groups among them in their place."""
    found: list[Canvas] = []
    for each in map(alone, canvases):
        found += flat(each["of"]) if each["is"] == "group" else [each]
    return found


def nested(header: Header) -> list[Canvas]:
    """The chains and chords in a header that end as a group."""
    return [each for each in header.members if each["is"] in SEVERAL and ends_as_group(each)]


def body_of(canvas: Canvas) -> list[Canvas] | None:
    """The steps of the body, if all of a canvas is one chord: a group and what follows it in one
    chain, and what is joined to a chord, as well."""
    canvas = alone(canvas)
    if canvas["is"] == "chord":
        return [alone(canvas["body"])]
    steps = [alone(each) for each in members(canvas) if not is_nothing(each)]
    if canvas["is"] not in ("chain", "or") or len(steps) < 2:
        return None
    first, *rest = steps
    several = first["is"] == "chunks" or len(flat([first])) > 1 or canvas["is"] == "or"
    if first["is"] in ("group", "chunks") and several:
        return rest
    body = body_of(first) if canvas["is"] == "or" else None
    return None if body is None else [*body, *rest]


def last_tasks(canvas: Canvas) -> list[Canvas]:
    """What a member of a header ends as: a task, or those of a group."""
    while canvas["is"] in ("chain", "or") and canvas["of"]:
        canvas = canvas["of"][-1]
    if canvas["is"] == "chord":
        return last_tasks(canvas["body"])
    if canvas["is"] == "group":
        return [task for member in canvas["of"] for task in last_tasks(member)]
    if canvas["of"] == "become":
        return [canvas, *last_tasks(canvas["tag"])]
    return [canvas]
