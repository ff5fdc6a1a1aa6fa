"""What canvases are: whether there is nothing in them, what fails, where they end as a group."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator

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


def steps(chain: Canvas) -> list[Canvas]:
    """Those of a chain, without empty chains, which leave no trace."""
    return [each for each in chain["of"] if not is_empty_chain(each)]


def is_nothing(canvas: Canvas) -> bool:
    """Whether no task is in it."""
    if canvas["is"] == "chunks":
        return not len(canvas["items"])
    kind: str = canvas["is"]
    return kind in ("chain", "or", "group") and all(map(is_nothing, canvas["of"]))


def is_group(canvas: Canvas) -> bool:
    """Whether it is a group, or ends as one."""
    if canvas["is"] in ("chain", "or") and steps(canvas):
        return is_group(steps(canvas)[-1])
    kind: str = canvas["is"]
    return kind in ("group", "chunks")


def is_chord(canvas: Canvas) -> bool:
    """Whether there is a group in it that something waits for."""
    if canvas["is"] in ("chain", "or"):
        return any(is_group(member) or is_chord(member) for member in canvas["of"])
    kind: str = canvas["is"]
    return kind == "chord"


def ends_as_group(canvas: Canvas) -> bool:
    """Whether it is a group, or a chain or a chord that ends as one."""
    if canvas["is"] in ("chain", "or") and steps(canvas):
        return ends_as_group(steps(canvas)[-1])
    return ends_as_group(canvas["body"]) if canvas["is"] == "chord" else is_group(canvas)


def ends_in_nothing(canvas: Canvas) -> bool:
    """Whether it ends as a group without tasks."""
    if canvas["is"] == "chord":
        return ends_in_nothing(canvas["body"])
    if canvas["is"] in ("chain", "or") and canvas["of"]:
        return ends_in_nothing(canvas["of"][-1])
    return is_nothing(canvas)


def groups_behind(canvas: Canvas) -> list[tuple[Canvas, list[Canvas]]]:
    """The groups that are bodies of chords, or behind other groups, with what comes behind them in
    the same chain, and what is linked to it. Chains in chains count as their steps."""
    return [
        (group_at_the_end(found[number - 1]), [*found[number:], *each.get("links", ())])
        for each in within(canvas)
        if each["is"] in ("chain", "or")
        for found in (steps(each), chained(each))
        for number in range(1, len(found))
        if _is_group_behind(found[:number])
    ]


def chained(canvas: Canvas) -> list[Canvas]:
    """The steps of a chain, with those of chains among them."""
    if canvas["is"] not in ("chain", "or"):
        return [canvas]
    return [step for each in canvas["of"] for step in chained(each)]


def behind_groups_behind(canvas: Canvas) -> list[Canvas]:
    """What comes behind those."""
    return [step for _, steps in groups_behind(canvas) for step in steps]


def group_at_the_end(canvas: Canvas) -> Canvas:
    """Of what ends as a group."""
    while canvas["is"] not in ("group", "chunks"):
        canvas = canvas["body"] if canvas["is"] == "chord" else steps(canvas)[-1]
    return canvas


def _is_group_behind(several: list[Canvas]) -> bool:
    """Whether these steps end as a group that has waited for another one."""
    *before, last = several
    if last["is"] == "chord":
        return ends_as_group(last)
    if any(is_group(each) or is_chord(each) for each in before):
        return ends_as_group(last)
    inner = steps(last) if last["is"] in ("chain", "or") else []
    return len(inner) > 0 and _is_group_behind(inner)


def headers_with_lost_ends(canvas: Canvas) -> list[Canvas]:
    """The members of headers that end in nothing, behind something that may fail."""
    return [
        member
        for each in within(canvas)
        if each["is"] in ("chord", "group")
        for member in each["of"]
        if member["is"] in ("chord", "chain", "or") and ends_in_nothing(member) and failing(member)
    ]


def runs_of(canvases: Iterable[Canvas], but: Iterable[Canvas] = ()) -> set[tuple[str, str]]:
    """What tells the runs of all tasks in them, but those in some: the name and the last
    argument."""
    found = set()
    left_out = {id(each) for each in itertools.chain.from_iterable(map(within, but))}
    for each in itertools.chain.from_iterable(map(within, canvases)):
        if id(each) in left_out:
            continue
        if each["is"] == "task":
            own = "…" if each["of"] == "become" else each["tag"]
            found.add((each["of"], json.dumps([own], ensure_ascii=False)))
        if each["of"] == "join":
            found.add(("keep", json.dumps([[each["tag"]]])))
        for item in each.get("items", ()):
            last = item[-1:] if isinstance(item, list) else [item]
            found.add((each["of"], json.dumps(last)))
    return found


def failing(canvas: Canvas) -> list[Canvas]:
    """The tasks in it that fail."""
    tasks = [each for each in within(canvas) if each["is"] == "task"]
    return [each for each in tasks if each["of"] in FAILING or becomes_nothing(each)]


def becomes_nothing(task: Canvas) -> bool:
    """Whether it fails since it is to be replaced by a chain of nothing."""
    return task["of"] == "become" and is_empty_chain(task["tag"])


def is_empty_chain(canvas: Canvas) -> bool:
    return canvas["is"] in ("chain", "or") and all(map(is_empty_chain, canvas["of"]))


def lone_steps(canvas: Canvas) -> list[Canvas]:
    """The steps of chains that are chains whose only step is a chain, and such chains at the end of
    the first of several that are joined, which is a chord; what is joined and ends as such a chain,
    as well."""
    found = [
        step
        for each in within(canvas)
        if each["is"] in ("chain", "or") and len(each["of"]) > 1
        for step in each["of"]
    ]
    joined = [
        alone(part)
        for each in within(canvas)
        if each["is"] == "or" and len(each["of"]) > 1
        for part in each["of"]
    ]
    found += [
        _end_of_chords(alone(each["of"][0]))
        for each in within(canvas)
        if each["is"] == "or" and len(each["of"]) > 1
    ]
    return [each for each in found if _is_lone(each)] + [
        part
        for part in joined
        if part["is"] in ("chain", "or") and len(part["of"]) > 1 and _is_lone(part["of"][-1])
    ]


def _is_lone(step: Canvas) -> bool:
    return step["is"] == "chain" and len(step["of"]) == 1 and step["of"][0]["is"] in ("chain", "or")


def _end_of_chords(canvas: Canvas) -> Canvas:
    """The body of a chord, or of the chord that this is."""
    while canvas["is"] == "chord":
        canvas = canvas["body"]
    return canvas


def alone(canvas: Canvas) -> Canvas:
    """What is joined with nothing is itself."""
    while canvas["is"] == "or" and len(canvas["of"]) == 1 and "links" not in canvas:
        (canvas,) = canvas["of"]
    return canvas


def only(canvas: Canvas) -> Canvas:
    """What is joined with nothing, and the only member of a group, is itself."""
    while canvas["is"] == "group" and len(canvas["of"]) == 1:
        (canvas,) = canvas["of"]
        canvas = alone(canvas)
    return canvas


def lost_links(canvas: Canvas) -> list[Canvas]:
    """The links of chains that are the only step of another chain, of that one where it is a step
    itself, of a group from a generator that is the only step of a chain that is the body of a
    chord, of chains with nothing at their end, and of a group and its tasks, with those of groups
    in it, at the end of a chain that has links itself; and of those in groups of their own."""
    lone = [
        (alone(member), each)
        for each in within(canvas)
        if each["is"] == "chain"
        for member in each["of"]
        if len(each["of"]) == 1
    ]
    outer = [link for each in lone_steps(canvas) for link in each.get("links", ())]
    bodies = [each["body"] for each in within(canvas) if each["is"] == "chord"]
    outer += [
        link
        for each in within(canvas)
        if each["is"] in ("chain", "or") and len(each["of"]) > 1 and is_nothing(each["of"][-1])
        for link in each.get("links", ())
    ]
    linked = [each for each in within(canvas) if "links" in each]
    if "links" in canvas.get("call", {}):
        linked.append(canvas)
    outer += [
        link
        for each in linked
        if each["is"] in ("chain", "or") and is_group(each)
        for member in _groups_and_members(group_at_the_end(each))
        for link in member.get("links", ())
    ]
    outer += [link for each in chains_in_lone_groups(canvas) for link in each.get("links", ())]
    return outer + [
        link
        for member, chain in lone
        if member["is"] in ("chain", "or") or (member.get("lazy") and chain in bodies)
        for link in member.get("links", ())
    ]


def chains_in_lone_groups(canvas: Canvas) -> list[Canvas]:
    """The chains that are all of a group that is joined, or is the only step of a chain."""
    found = [
        only(member)
        for each in within(canvas)
        if (each["is"] == "chain" and len(each["of"]) == 1) or each["is"] == "or"
        for member in map(alone, each["of"])
        if member["is"] == "group"
    ]
    return [each for each in found if each["is"] in ("chain", "or")]


def _groups_and_members(group: Canvas) -> Iterator[Canvas]:
    """A group and its members, with those of groups among them."""
    yield group
    for each in map(alone, members(group)):
        if each["is"] == "group":
            yield from _groups_and_members(each)
        else:
            yield each
