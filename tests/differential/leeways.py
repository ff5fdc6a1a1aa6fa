"""What a difference that is meant to be lets pass (`agreeing`): Celery's side comes first."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from .agreeing import Agreement, Leeway, Run
from .canvases import Canvas
from .observed import STUCK
from .reading import (
    FAILING,
    becomes_nothing,
    behind_groups_behind,
    ends_as_group,
    failing,
    headers_with_lost_ends,
    is_chord,
    lost_links,
    runs_of,
    within,
)

CHORD_ERROR = re.compile(r"ChordError: (Join error: |Dependency <\S*> raised )")
AS_TOLD = re.compile(r"ChordError\((['\"])(?:Join error: |Dependency <\S*> raised )(.*)\1\)")
AS_TEXT = re.compile(r"^(ValueError|Trouble|KeyError): (?=\()")
OF_A_TASK = re.compile(
    r"(ValueError|Trouble|KeyError)(: )?\((\\?['\"])(deliberate|deep|stubborn)\3, [^()]*\)"
)
REFUSED = re.compile(
    r"""(Reject: \("|reject requeue=False: )\('deliberate', [^()]*\)(", False\))?"""
)
EMPTY_CHAIN = re.compile(
    r"""(ImproperlyConfigured: |ImproperlyConfigured\(\\?['"])"""
    r"""Cannot replace with an empty chain(\\?['"]\))?"""
)
INDEX_ERROR = re.compile(r"""IndexError(: |\(\\?['"])list index out of range(\\?['"]\))?""")
OF_A_CHORD = re.compile(
    r"""ChordError\(\\*['"](Dependency <one> raised |Join error: )its error\\*['"]\)"""
)
SAYING = re.compile(r"\('(deliberate|deep|stubborn)', [^()]*\)")
NAMED = re.compile(r"<[a-z]+(:\[[^<>]*\])?>")
CALLBACKS = ("note", "told")
EMPTY = "IndexError: list index out of range"
NOT_A_SIGNATURE = "AttributeError: 'dict' object has no attribute 'clone'"
NOT_IMMUTABLE = "AttributeError: 'str' object has no attribute 'set_immutable'"
GROUP_AS_LINK = (
    "TypeError: Cannot add link to group: do that on individual tasks",
    "TypeError: Cannot add link to group: use a chord",
)
SAID = {"fail": "deliberate", "trouble": "deep", "stubborn": "stubborn", "refuse": "deliberate"}


# -- whole outcomes ------------------------------------------------------------------------------


def _never_ends(both: Agreement) -> bool:
    """Celery never ends (or leaves out what is before a group of nothing): what it did, was done
    here too."""
    stuck = both.theirs.get("get") in ("not ready", {"value": []})
    return stuck and both.ours.get("get", "not ready") != "not ready" and both.runs(more=True)


def _cannot_apply(both: Agreement) -> bool:
    """Celery cannot apply it, since something in it is empty; here it can be, and ends, or has
    the other error that Celery has of groups as links. Or it gives nothing there, and an empty
    group here."""
    wrong = both.ours.get("error")
    if both.theirs == {"result": None, "get": None, "ran": []}:
        return both.ours == {"result": {"group": []}, "get": {"value": []}, "ran": []}
    return both.theirs == {"error": EMPTY} and (_ends(both) or wrong in GROUP_AS_LINK)


def _cannot_link(both: Agreement) -> bool:
    return both.theirs == {"error": NOT_A_SIGNATURE} and _ends(both)


def _cannot_be_immutable(both: Agreement) -> bool:
    return both.theirs == {"error": NOT_IMMUTABLE} and _ends(both)


def _hangs(both: Agreement) -> bool:
    return both.theirs == STUCK and _ends(both)


def _hangs_where_it_fails(both: Agreement) -> bool:
    return both.theirs == STUCK and _has_failed(both, both.ours.get("get"))


def _ends(both: Agreement) -> bool:
    """Whether it ends here: nothing is left to wait for but a task that is ignored."""
    if "error" in both.ours:
        return False
    ran = [json.loads(line)[0] for line in both.ours["ran"]]
    return both.ours["get"] != "not ready" or "skip" in ran


hangs = Leeway(outcome=_hangs)
hangs_where_it_fails = Leeway(outcome=_hangs_where_it_fails)
cannot_be_immutable = Leeway(outcome=_cannot_be_immutable)
never_ends = Leeway(outcome=_never_ends)
cannot_apply = Leeway(outcome=_cannot_apply)
cannot_link = Leeway(outcome=_cannot_link)


# -- what get() gives ----------------------------------------------------------------------------


def _never_got(both: Agreement, theirs: Any, ours: Any) -> bool:
    """Celery has all results, and waits for another one."""
    return theirs == {"error": "TimeoutError: The operation timed out."} and "value" in ours


def _succeeded(both: Agreement, theirs: Any, ours: Any) -> bool:
    return theirs == "not ready" and "value" in ours


never_got = Leeway(got=_never_got)


# -- tasks that Celery leaves pending ------------------------------------------------------------


def _without(node: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in node.items() if name not in names}


def _is_pending(node: Any) -> bool:
    return isinstance(node, dict) and node.get("state") == "PENDING"


def _rest_is_same(both: Agreement, theirs: Any, ours: Any, name: str) -> bool:
    return both.same(_without(theirs, "state"), _without(ours, name))


def _ignored(both: Agreement, theirs: Any, ours: Any) -> bool:
    """A task whose result is ignored: pending there, succeeded with nothing here."""
    if not _is_pending(theirs) or not isinstance(ours, dict) or ours.get("value", ...) is not None:
        return False
    return _rest_is_same(both, theirs, ours, "value")


def _got_ignored(both: Agreement, theirs: Any, ours: Any) -> bool:
    said = _said(theirs)  # of the task that failed, which has no result there
    return _succeeded(both, theirs, ours) or (said is not None and said == _said(ours))


def _said(got: Any) -> str | None:
    """What the task that failed has said."""
    error = got.get("error") if isinstance(got, dict) else None
    found = SAYING.search(error) if error else None
    return found and found[0]


def _replaced(both: Agreement, theirs: Any, ours: Any) -> bool:
    """A task replaced by one whose result is ignored: pending there, here with that result."""
    if not _is_pending(theirs) or not isinstance(ours, dict) or "value" not in ours:
        return False
    return _rest_is_same(both, theirs, ours, "value")


def _dropped(both: Agreement, theirs: Any, ours: Any) -> bool:
    """A task whose result is ignored, replaced by another one: with that one's result there."""
    if not isinstance(theirs, dict) or not isinstance(ours, dict) or "value" not in theirs:
        return False
    if not _is_pending(ours) and ours.get("value", ...) is not None:
        return False
    return both.same(_without(theirs, "value"), _without(ours, "value", "state"))


def _got_nothing(both: Agreement, theirs: Any, ours: Any) -> bool:
    if theirs == {"value": None} or ours == "not ready":
        return bool(theirs == {"value": None})
    if not isinstance(theirs, dict) or not isinstance(ours, dict):
        return False
    there, here = theirs.get("value"), ours.get("value")
    if not isinstance(there, list) or not isinstance(here, list):
        return False
    known = [their for their, our in zip(there, here, strict=False) if our is not None]
    return both.in_turn(known, [our for our in here if our is not None])


def _has_failed(both: Agreement, node: Any) -> bool:
    """With the error of a task that did."""
    error = node.get("error") if isinstance(node, dict) else None
    if not isinstance(error, str):
        return False
    if EMPTY_CHAIN.search(error):
        return any(map(becomes_nothing, within(both.canvas)))
    return any(
        repr((SAID[name], arguments[-1])) in error.replace("\\", "")
        for name, arguments, *_ in map(json.loads, both.ours["ran"])
        if name in FAILING
    )


def _never_ran(both: Agreement, theirs: Any, ours: Any) -> bool:
    """What Celery leaves pending has failed here."""
    if not isinstance(theirs, dict) or not isinstance(ours, dict):
        return False
    if _is_pending(theirs):
        return _has_failed(both, ours) and _rest_is_same(both, theirs, ours, "error")
    waiting, lost = _tasks(theirs), _tasks(ours)
    return (
        len(waiting) == len(lost) > 0
        and all(map(_is_pending, waiting))
        and all(_has_failed(both, each) for each in lost)
        and both.same(_without(theirs, "group"), _without(ours, "group"))
    )


def _tasks(result: Any) -> list[Any]:
    """The tasks of a group, with those of groups in it; none, if one of them waited for another."""
    found: list[Any] = []
    for each in result.get("group", ()):
        if "parent" in each:
            return []
        found += _tasks(each) if "group" in each else [each]
    return found


def _got_failed(both: Agreement, theirs: Any, ours: Any) -> bool:
    return theirs == "not ready" and _has_failed(both, ours)


def _went_on(both: Agreement, theirs: Any, ours: Any) -> bool:
    """Celery has gone on where a task cannot run here, since something has failed."""
    if not isinstance(theirs, dict) or not isinstance(ours, dict) or "value" not in theirs:
        return False
    return _has_failed(both, ours) and both.same(_without(theirs, "value"), _without(ours, "error"))


def _failed_otherwise(both: Agreement, theirs: Any, ours: Any) -> bool:
    """The same, of a task that has gone on there and failed by itself."""
    if not isinstance(theirs, dict) or not isinstance(ours, dict) or "error" not in theirs:
        return False
    return _has_failed(both, ours) and both.same(_without(theirs, "error"), _without(ours, "error"))


def _is_behind_lost_end(both: Agreement, run: Run) -> bool:
    """Whether it is of a task that is not in a header whose end is lost."""
    return _told(run) in both.about(_beside_lost_ends) or run[0] in CALLBACKS


def _beside_lost_ends(canvas: Canvas) -> set[tuple[str, str]]:
    return runs_of([canvas]) - runs_of(headers_with_lost_ends(canvas))


def _told(run: Run) -> tuple[str, str]:
    return run[0], json.dumps(run[1][-1:], ensure_ascii=False)


def _one_of_several(both: Agreement, theirs: Any, ours: Any) -> bool:
    """Celery hands on what one task of a group gives, here that is the list of them all."""
    if not isinstance(theirs, list) or not isinstance(ours, list) or len(theirs) != len(ours):
        return False
    if len(ours) < 2 or not isinstance(ours[0], list):
        return False
    return (
        any(json.dumps(ours[-1:]) == own for _, own in both.about(_behind_groups))
        and any(both.same(theirs[0], one) for one in ours[0])
        and both.in_turn(theirs[1:], ours[1:])
    )


def _is_behind_group(both: Agreement, run: Run) -> bool:
    """Whether it is of a task that Celery runs once for each task of the group before."""
    return _told(run) in both.about(_behind_groups)


def _behind_groups(canvas: Canvas) -> set[tuple[str, str]]:
    return runs_of(behind_groups_behind(canvas))


def _pending_header(both: Agreement, theirs: Any, ours: Any) -> bool:
    """Celery gives results with ids that no task of the header has."""
    if not isinstance(theirs, dict) or not isinstance(ours, dict) or "group" not in ours:
        return False
    pending = theirs.get("group") or ()
    ended = all("value" in each or "error" in each for each in ours["group"] if "group" not in each)
    rest = _without(theirs, "group"), _without(ours, "group")
    return bool(pending) and all(map(_is_pending, pending)) and ended and both.same(*rest)


unnoticed = Leeway(
    node=lambda both, theirs, ours: (
        _went_on(both, theirs, ours) or _failed_otherwise(both, theirs, ours)
    ),
    got=lambda both, _, ours: _has_failed(both, ours),
    fewer=_is_behind_lost_end,
)
several_times = Leeway(
    node=lambda both, theirs, ours: (
        _one_of_several(both, theirs, ours) or _went_on(both, theirs, ours)
    ),
    got=lambda both, _, ours: _has_failed(both, ours),
    fewer=_is_behind_group,
)
ignored = Leeway(node=_ignored, got=_got_ignored)


def _not_handed_on(both: Agreement, theirs: Any, ours: Any) -> bool:
    """Celery hands on nothing for a task whose result is ignored."""
    return theirs is None and ours is not None


not_handed_on = Leeway(node=_not_handed_on)
dropped = Leeway(node=_dropped, got=_got_nothing)
replaced = Leeway(node=_replaced, got=_succeeded)
never_ran = Leeway(node=_never_ran, got=_got_failed)
pending_header = Leeway(node=_pending_header)


# -- what ran ------------------------------------------------------------------------------------


def _is_unreached(both: Agreement, run: Run) -> bool:
    """Whether it is an error callback of a task that did not run, so that it has no name here; or
    of one that was replaced by a chord that failed."""
    replaced = any(
        each["of"] == "become" and failing(each["tag"]) and _joins(each["tag"])
        for each in within(both.canvas)
    )
    if run[0] not in CALLBACKS:
        return False
    unnamed = run[1][0] == "<id>" or run[1] == ["fixed"]
    return unnamed or (replaced and run[1][0].startswith("<become:"))


def _joins(canvas: Canvas) -> bool:
    """Whether a task that it replaces waits for a group."""
    return is_chord(canvas) or ends_as_group(canvas)


def _is_callback(both: Agreement, run: Run) -> bool:
    return run[0] in CALLBACKS


def _is_lost_link(both: Agreement, run: Run) -> bool:
    """Whether it is of a link that Celery loses, or of its error callbacks."""
    lost = [one for link in lost_links(both.canvas) for one in within(link)]
    return run[0] in CALLBACKS or [run[0], run[1][-1:]] in [[e["of"], [e.get("tag")]] for e in lost]


def _stamped(both: Agreement, theirs: Any, ours: Any) -> bool:
    """Tasks have a stamp here that they have not there: none there, or another one."""
    marks = {each["stamp"] for each in within(both.canvas) if "stamp" in each}
    return ours.get("mark") in marks


def _visited(both: Agreement, theirs: Any, ours: Any) -> bool:
    """The same for the stamp of a visitor."""
    return ours.get("mark") in {each.get("visitor") for each in within(both.canvas)} - {None}


def _is_added(both: Agreement, run: Run) -> bool:
    """Whether it is a task that was added to a header."""
    tags = [each["tag"] for each in within(both.canvas) if each["of"] == "join"]
    return run[0] == "keep" and run[1] in [[[tag]] for tag in tags]


added = Leeway(more=_is_added)
callbacks_behind = Leeway(more=_is_unreached)
fewer_callbacks = Leeway(fewer=_is_callback)
links = Leeway(more=_is_lost_link)


def _is_doubled(both: Agreement, run: Run) -> bool:
    """Whether it is a callback that Celery calls once: it is there with a stamp and without."""
    return run[0] in CALLBACKS and json.dumps(run[:2]) in both.theirs["ran"]


stamps = Leeway(stamps=_stamped, more=_is_doubled)
visitor_stamps = Leeway(stamps=_visited)
order = Leeway(order=True)


# -- values --------------------------------------------------------------------------------------


def _when_flat(both: Agreement, theirs: Any, ours: Any) -> bool:
    """Celery has a group in a group where here its tasks are."""
    if (
        isinstance(theirs, dict)
        and isinstance(ours, dict)
        and "group" in theirs
        and "group" in ours
    ):
        whole = (
            {**theirs, "group": list(_unnested(theirs))},
            {**ours, "group": list(_unnested(ours))},
        )
        if whole != (theirs, ours) and both.same(*whole):
            return True
    return sorted(map(json.dumps, _leaves(theirs))) == sorted(map(json.dumps, _leaves(ours)))


def _unnested(result: dict[str, Any]) -> Iterator[Any]:
    """The tasks of a group, with those of groups in it that wait for nothing."""
    for each in result["group"]:
        if each.keys() == {"group"}:
            yield from _unnested(each)
        else:
            yield each


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict) and "group" in value:
        return _leaves(value["group"]) + _leaves(value.get("parent", []))
    if isinstance(value, dict):
        return [
            leaf
            for key in sorted(value)
            for leaf in ([] if key == "parent" else [key]) + _leaves(value[key])
        ]
    if isinstance(value, list):
        return [leaf for each in value for leaf in _leaves(each)]
    return [value]


def _with_one_more(both: Agreement, less: Any, more: Any) -> bool:
    return isinstance(less, list) and isinstance(more, list) and len(more) == len(less) + 1


def _joined(both: Agreement, theirs: Any, ours: Any) -> bool:
    """Celery loses the results of tasks that have joined a header; here they come last."""
    if not isinstance(theirs, list) or not isinstance(ours, list) or len(ours) <= len(theirs):
        return False
    tags = [each["tag"] for each in within(both.canvas) if each["of"] == "join"]
    more = ours[len(theirs) :]
    return all(one in [[[tag]] for tag in tags] for one in more) and both.same(
        theirs, ours[: len(theirs)]
    )


def _given(both: Agreement, theirs: Any, ours: Any) -> bool:
    """Celery loses what is given, or the result of what is before; here that comes first. It may
    lose a keyword, too."""
    keywords = both.canvas.get("call", {}).get("kwargs")
    if isinstance(ours, list) and keywords is not None and ours[-1:] == [keywords]:
        ours = ours[:-1]
    if not _with_one_more(both, theirs, ours):
        return False
    numbers = [each["tag"] for each in within(both.canvas) if each["of"] in ("tag", "join")]
    known = ours[0] in [*both.canvas.get("given", ()), *numbers, None] or isinstance(ours[0], list)
    return known and both.in_turn(theirs, ours[1:])


def _taken(both: Agreement, theirs: Any, ours: Any) -> bool:
    """Tasks take an argument there that are immutable here, and perhaps a keyword."""
    keywords = both.canvas.get("call", {}).get("kwargs")
    if isinstance(theirs, list) and keywords is not None and theirs[-1:] == [keywords]:
        theirs = theirs[:-1]
    return _with_one_more(both, ours, theirs) and both.in_turn(theirs[1:], ours)


def _keyword(both: Agreement) -> Any:
    return both.canvas["call"]["kwargs"]


def _with_keyword(both: Agreement, theirs: Any, ours: Any) -> bool:
    """Celery loses a keyword that is given, or has one of the task's own."""
    if (
        not isinstance(theirs, list)
        or not isinstance(ours, list)
        or _keyword(both) not in ours[-1:]
    ):
        return False
    own = theirs[:-1] if theirs and isinstance(theirs[-1], dict) else theirs
    return both.in_turn(own, ours[:-1])


def _keyword_taken(both: Agreement, theirs: Any, ours: Any) -> bool:
    """A task takes a keyword there, and is immutable here, maybe with one of its own."""
    if not isinstance(theirs, list) or not isinstance(ours, list):
        return False
    own = ours[:-1] if ours and isinstance(ours[-1], dict) else ours
    return _keyword(both) in theirs[-1:] and both.in_turn(theirs[:-1], own)


joined = Leeway(node=_joined)


def _one_of_one(both: Agreement, theirs: Any, ours: Any) -> bool:
    """Celery hands on the result of a group of one, here that is a list."""
    return isinstance(ours, list) and len(ours) == 1 and both.same(theirs, ours[0])


def _became_nothing(both: Agreement, theirs: Any, ours: Any) -> bool:
    """A task that is replaced by nothing fails there."""
    if not isinstance(theirs, dict) or not isinstance(ours, dict):
        return False
    return theirs.get("error") == EMPTY and both.same(
        _without(theirs, "error"), _without(ours, "value", "error")
    )


def _parent_of_one(both: Agreement, theirs: Any, ours: Any) -> bool:
    """Celery hands on a list for a group of one, and what is before it is before its task."""
    if isinstance(theirs, list) and len(theirs) == 1 and both.same(theirs[0], ours):
        return True
    if not isinstance(theirs, dict) or not isinstance(ours, dict) or "parent" not in ours:
        return False
    tasks = theirs.get("group", ())
    if len(tasks) != 1 or "parent" in theirs or "parent" not in tasks[0]:
        return False
    moved = {"group": [_without(tasks[0], "parent")], "parent": tasks[0]["parent"]}
    return both.same(moved, ours)


one_of_one = Leeway(node=_one_of_one)
became_nothing = Leeway(node=_became_nothing)
parent_of_one = Leeway(node=_parent_of_one)
flat = Leeway(node=_when_flat)
given = Leeway(node=_given)
taken = Leeway(node=_taken)
keywords = Leeway(
    node=_with_keyword, kwargs=lambda both, theirs, ours: bool(ours == _keyword(both))
)
keywords_taken = Leeway(
    node=_keyword_taken,
    kwargs=lambda both, theirs, ours: bool(theirs == {**ours, **_keyword(both)}),
)


# -- errors --------------------------------------------------------------------------------------


def _of_some_task(text: str) -> str:
    for error in (REFUSED, OF_A_TASK, EMPTY_CHAIN):
        text = error.sub("its error", text)
    text = NAMED.sub("<one>", text)
    while OF_A_CHORD.search(text):
        text = OF_A_CHORD.sub("its error", text)
    return text


def _reworded(text: str) -> str:
    told = AS_TOLD.fullmatch(text)
    said = AS_TEXT.sub(r"\1", told[2] if told else CHORD_ERROR.sub("", text))
    return EMPTY_CHAIN.sub("empty chain", said)


def _of_nothing(text: str) -> str:
    return INDEX_ERROR.sub("empty chain", EMPTY_CHAIN.sub("empty chain", text))


def _got_one_of_several(both: Agreement, theirs: Any, ours: Any) -> bool:
    """Of a group: that of any of its tasks, as it is or as a `ChordError`."""
    if not isinstance(theirs, dict) or not isinstance(ours, dict):
        return False
    errors = [_of_some_task(_reworded(each.get("error", ""))) for each in (theirs, ours)]
    return errors[0] == errors[1] != ""


of_nothing = Leeway(text=_of_nothing)
which_error = Leeway(text=_of_some_task, got=_got_one_of_several)
wording = Leeway(text=_reworded)
