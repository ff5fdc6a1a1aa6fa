"""What canvases are: whether there is nothing in them, what fails, where they end as a group."""

from __future__ import annotations

from collections.abc import Iterator

from .canvases import Canvas

SEVERAL = ("chain", "or", "group", "chord")
FAILING = ("fail", "trouble", "stubborn", "refuse")


def within(canvas: Canvas) -> Iterator[Canvas]:
    """A canvas and all that are in it."""
    yield canvas
    inner = [canvas.get(key) for key in ("of", "links", "body", "tag")]
    inner.append(canvas.get("call", {}).get("links"))
    for found in inner:
        for each in found if isinstance(found, list) else [found]:
            if isinstance(each, dict):
                yield from within(each)


def members(canvas: Canvas) -> list[Canvas]:
    return canvas["of"] if canvas["is"] in SEVERAL else []


def is_nothing(canvas: Canvas) -> bool:
    """Whether no task is in it."""
    if canvas["is"] == "chunks":
        return not len(canvas["items"])
    kind: str = canvas["is"]
    return kind in ("chain", "or", "group") and all(map(is_nothing, canvas["of"]))


def is_group(canvas: Canvas) -> bool:
    """Whether it is a group, or ends as one."""
    if canvas["is"] in ("chain", "or") and canvas["of"]:
        return is_group(canvas["of"][-1])
    kind: str = canvas["is"]
    return kind in ("group", "chunks")


def is_chord(canvas: Canvas) -> bool:
    """Whether there is a group in it that something waits for."""
    if canvas["is"] in ("chain", "or"):
        return any(is_group(member) or is_chord(member) for member in canvas["of"])
    kind: str = canvas["is"]
    return kind == "chord"


def is_behind_groups(canvas: Canvas) -> bool:
    """Whether in some chain there is something behind a group or a chord."""
    return any(
        is_chord(before) or is_group(before)
        for each in within(canvas)
        if each["is"] in ("chain", "or")
        for before in each["of"][:-1]
    )


def failing(canvas: Canvas) -> list[Canvas]:
    """The tasks in it that fail."""
    tasks = [each for each in within(canvas) if each["is"] == "task"]
    return [each for each in tasks if each["of"] in FAILING or becomes_nothing(each)]


def becomes_nothing(task: Canvas) -> bool:
    """Whether it fails since it is to be replaced by a chain of nothing."""
    return task["of"] == "become" and is_empty_chain(task["tag"])


def is_empty_chain(canvas: Canvas) -> bool:
    return canvas["is"] == "chain" and all(map(is_empty_chain, canvas["of"]))


def lone_steps(canvas: Canvas) -> list[Canvas]:
    """The steps of chains that are chains whose only step is a chain."""
    return [
        step
        for each in within(canvas)
        if each["is"] in ("chain", "or") and len(each["of"]) > 1
        for step in each["of"]
        if step["is"] == "chain" and len(step["of"]) == 1 and step["of"][0]["is"] in ("chain", "or")
    ]


def lost_links(canvas: Canvas) -> list[Canvas]:
    """The links of chains that are the only step of another chain, of that one where it is a step
    itself, and of a group from a generator that is the only step of a chain that is the body of a
    chord."""
    lone = [
        (member, each)
        for each in within(canvas)
        if each["is"] == "chain"
        for member in each["of"]
        if len(each["of"]) == 1
    ]
    outer = [link for each in lone_steps(canvas) for link in each.get("links", ())]
    bodies = [each["body"] for each in within(canvas) if each["is"] == "chord"]
    return outer + [
        link
        for member, chain in lone
        if member["is"] in ("chain", "or") or (member.get("lazy") and chain in bodies)
        for link in member.get("links", ())
    ]
