"""What a difference leaves out of two outcomes: the first is Celery's, the second is ours.

Each gives the outcomes as they are where they do not differ in the way that is meant.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from typing import Any

from .observed import Outcome
from .reading import FAILING

Pair = tuple[Outcome, Outcome]

CHORD_ERROR = re.compile(r"ChordError: (Join error: |Dependency <\S*> raised )")
OF_A_TASK = re.compile(
    r"(ValueError|Trouble|KeyError)(: )?\((\\?['\"])(deliberate|deep|stubborn)\3, [^()]*\)"
)
SAYING = re.compile(r"\('(deliberate|deep|stubborn)', [^()]*\)")
NAMED = re.compile(r"<[a-z]+(:\[[^<>]*\])?>")
CALLBACKS = ("note", "told")
EMPTY = "IndexError: list index out of range"
LINKS = "TypeError: Cannot add link to group: do that on individual tasks"
SAID = {"fail": "deliberate", "trouble": "deep", "stubborn": "stubborn"}


def never_ends(theirs: Outcome, ours: Outcome) -> Pair:
    """Celery never ends (or leaves out what is before a group of nothing): what it did, was done
    here too."""
    stuck = theirs.get("get") in ("not ready", {"value": []}) and ours.get("get") != "not ready"
    return ({}, {}) if stuck and _more(theirs, ours) is not None else (theirs, ours)


def never_got(theirs: Outcome, ours: Outcome) -> Pair:
    """Celery has all results, and waits for another one."""
    if theirs.get("get") == {"error": "TimeoutError: The operation timed out."}:
        return (
            {**theirs, "get": ours["get"]} if "value" in (ours.get("get") or {}) else theirs
        ), ours
    return theirs, ours


def cannot_apply(theirs: Outcome, ours: Outcome) -> Pair:
    """Celery cannot apply it, since something in it is empty; here it can be, and ends."""
    works = "error" not in ours and ours.get("get") != "not ready"
    works = works or ours == {"error": LINKS}
    return ({}, {}) if theirs == {"error": EMPTY} and works else (theirs, ours)


def never_ran(theirs: Outcome, ours: Outcome) -> Pair:
    """What Celery leaves pending has failed here, with the error of a task that did."""
    known = [
        repr((SAID[name], arguments[-1]))
        for name, arguments, *_ in map(json.loads, ours.get("ran") or ())
        if name in FAILING
    ]

    def failed(value: Any) -> bool:
        error = value.get("error") if isinstance(value, dict) else None
        return error is not None and any(each in error.replace("\\", "") for each in known)

    def filled(pending: Any, value: Any) -> Any:
        waiting = _members(pending)
        if waiting and all(each.get("state") == "PENDING" for each in waiting):
            lost = _members(value)
            if lost and len(waiting) == len(lost) and all(map(failed, lost)):
                above = {k: filled(v, value.get(k)) for k, v in pending.items() if k == "parent"}
                return {"group": value["group"], **above}
        if isinstance(pending, list) and isinstance(value, list) and len(pending) == len(value):
            return [filled(*pair) for pair in zip(pending, value, strict=True)]
        if not isinstance(pending, dict) or not isinstance(value, dict):
            return pending
        if pending.get("state") == "PENDING" and failed(value):
            pending = {
                "error": value["error"],
                **{k: v for k, v in pending.items() if k != "state"},
            }
        return {key: filled(each, value.get(key)) for key, each in pending.items()}

    if "result" not in theirs:
        return theirs, ours
    found = {**theirs, "result": filled(theirs.get("result"), ours.get("result"))}
    if theirs.get("get") == "not ready" and failed(ours.get("get")):
        found["get"] = ours["get"]
    return found, ours


def _members(result: Any) -> list[Any]:
    """The tasks of a group, with those of groups in it; none, if one of them waited for another."""
    if not isinstance(result, dict) or "group" not in result:
        return []
    found: list[Any] = []
    for each in result["group"]:
        if "parent" in each:
            return []
        found += _members(each) if "group" in each else [each]
    return found


def ignored(theirs: Outcome, ours: Outcome) -> Pair:
    """A task whose result is ignored: pending there, succeeded with nothing here."""
    found, ours = _succeeded(theirs, ours, lambda value: value is None)
    if _said(found.get("get")) == _said(ours.get("get")) is not None:
        found = {**found, "get": ours["get"]}  # of the task that failed, which has none there
    return found, ours


def replaced(theirs: Outcome, ours: Outcome) -> Pair:
    """A task replaced by one whose result is ignored: pending there, here with that result."""
    return _succeeded(theirs, ours, lambda value: True)


def _succeeded(theirs: Outcome, ours: Outcome, with_value: Callable[[Any], bool]) -> Pair:
    """What has succeeded here, and is pending there."""

    def known(pending: Any, value: Any) -> Any:
        if isinstance(pending, list) and isinstance(value, list) and len(pending) == len(value):
            return [known(*pair) for pair in zip(pending, value, strict=True)]
        if not isinstance(pending, dict) or not isinstance(value, dict):
            return pending
        found = {key: known(each, value.get(key)) for key, each in pending.items()}
        if pending.get("state") == "PENDING" and "value" in value and with_value(value["value"]):
            del found["state"]
            return {"value": value["value"], **found}
        return found

    if "result" not in theirs:
        return theirs, ours
    found = {**theirs, "result": known(theirs["result"], ours.get("result"))}
    if theirs["get"] == "not ready" and "value" in (ours.get("get") or {}):
        found["get"] = ours["get"]
    return found, ours


def _said(got: Any) -> str | None:
    """What the task that failed has said."""
    error = got.get("error") if isinstance(got, dict) else None
    found = SAYING.search(error) if error else None
    return found and found[0]


# -- what ran ------------------------------------------------------------------------------------


def _more(theirs: Outcome, ours: Outcome) -> list[str] | None:
    """What ran here and not there; ``None`` if something ran there and not here."""
    left = list(theirs.get("ran") or ())
    more = []
    for line in ours.get("ran") or ():
        if line in left:
            left.remove(line)
        else:
            more.append(line)
    return None if left else more


def _is_callback(line: str) -> bool:
    return json.loads(line)[0] in CALLBACKS


def _is_unreached(line: str) -> bool:
    """Whether it is an error callback of a task that did not run: it has no name here."""
    told = json.loads(line)[1]
    return _is_callback(line) and (told[0] == "<id>" or told == ["fixed"])


def callbacks_behind(theirs: Outcome, ours: Outcome) -> Pair:
    """Here the callbacks of what cannot run are called."""
    more = _more(theirs, ours)
    if more and all(map(_is_unreached, more)):
        return theirs, {**ours, "ran": theirs.get("ran")}
    return theirs, ours


def fewer_callbacks(theirs: Outcome, ours: Outcome) -> Pair:
    """Celery calls callbacks that are not called here."""
    more = _more(ours, theirs)
    if more and all(map(_is_callback, more)):
        return {**theirs, "ran": ours.get("ran")}, ours
    return theirs, ours


def links(theirs: Outcome, ours: Outcome) -> Pair:
    """Celery loses what is linked; here it runs."""
    more = _more(theirs, ours)
    return (theirs, {**ours, "ran": theirs.get("ran")}) if more else (theirs, ours)


def stamps(theirs: Outcome, ours: Outcome) -> Pair:
    """Tasks have stamps here that they have not there."""
    left = list(ours.get("ran") or ())
    for line in theirs.get("ran") or ():
        found = line if line in left else next((e for e in left if _unstamped(e) == line), None)
        if found is None:
            return theirs, ours
        left.remove(found)
    return (theirs, ours) if left else (theirs, {**ours, "ran": theirs.get("ran")})


def _unstamped(line: str) -> str:
    ran = json.loads(line)
    return json.dumps([e for e in ran if not (isinstance(e, dict) and "stamps" in e)])


# -- results -------------------------------------------------------------------------------------


def pending_header(theirs: Outcome, ours: Outcome) -> Pair:
    """Celery gives results with ids that no task of the header has."""
    return {**theirs, "result": _as_found(theirs.get("result"), ours.get("result"))}, ours


def _as_found(theirs: Any, ours: Any) -> Any:
    if isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        return [_as_found(*pair) for pair in zip(theirs, ours, strict=True)]
    if not isinstance(theirs, dict) or not isinstance(ours, dict):
        return theirs
    found = {key: _as_found(value, ours.get(key)) for key, value in theirs.items()}
    above = theirs.get("parent")
    if above and all(each.get("state") == "PENDING" for each in above.get("group") or [{}]):
        found["parent"] = {**found["parent"], "group": (ours.get("parent") or {}).get("group")}
    return found


# -- values --------------------------------------------------------------------------------------

Same = Callable[[Any, Any], bool]


def _where(same: Same, theirs: Outcome, ours: Outcome) -> Pair:
    """With theirs in place of ours where these are the ``same``."""
    found = {
        key: theirs[key] if key in theirs and same(theirs[key], value) else value
        for key, value in ours.items()
    }
    if _same_runs(same, theirs.get("ran") or [], ours.get("ran") or []):
        found["ran"] = theirs.get("ran")
    return theirs, found


def _same_runs(same: Same, theirs: list[str], ours: list[str]) -> bool:
    """Whether what ran can be paired."""
    left = [json.loads(line) for line in ours]
    for ran in map(json.loads, theirs):
        exactly = (each for each in left if each == ran)
        nearly = (
            each
            for each in left
            if each[0] == ran[0]
            and each[2:] == ran[2:]
            and len(each[1]) == len(ran[1])
            and all(itertools.starmap(same, zip(ran[1], each[1], strict=True)))
        )
        found = next(itertools.chain(exactly, nearly), None)
        if found is None:
            return False
        left.remove(found)
    return not left


def order(theirs: Outcome, ours: Outcome) -> Pair:
    """Celery has the results of a group in another order."""
    return _where(_but_for_order, theirs, ours)


def _but_for_order(theirs: Any, ours: Any) -> bool:
    if isinstance(theirs, dict) and isinstance(ours, dict):
        return theirs.keys() == ours.keys() and all(
            _but_for_order(value, ours[key]) for key, value in theirs.items()
        )
    if not isinstance(theirs, list) or not isinstance(ours, list):
        return bool(theirs == ours)
    if len(theirs) != len(ours):
        return False
    if all(itertools.starmap(_but_for_order, zip(theirs, ours, strict=True))):
        return True
    if _is_of_keep(theirs) and _is_of_keep(ours):
        return False
    left = list(ours)
    for each in theirs:
        found = next((one for one in left if _but_for_order(each, one)), left)
        if found is left:
            return False
        left.remove(found)
    return True


def _is_of_keep(value: list[Any]) -> bool:
    """Whether it may be the arguments of a task, whose own comes last, and not results."""
    return isinstance(value[-1], int) and not all(isinstance(each, int) for each in value)


def flat(theirs: Outcome, ours: Outcome) -> Pair:
    """Celery has a group in a group where here its tasks are."""
    return _where(_when_flat, theirs, ours)


def _when_flat(theirs: Any, ours: Any) -> bool:
    return sorted(map(json.dumps, _leaves(theirs))) == sorted(map(json.dumps, _leaves(ours)))


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


def given(theirs: Outcome, ours: Outcome) -> Pair:
    """Celery loses the argument that is given; here it comes first."""
    return theirs, _as_without_first(theirs, ours)


def taken(theirs: Outcome, ours: Outcome) -> Pair:
    """Tasks take an argument there that are immutable here."""
    return _as_without_first(ours, theirs), ours


def _as_without_first(theirs: Outcome, ours: Outcome) -> Outcome:
    """The first outcome, where the second one is the same but for one more argument."""
    left = [json.loads(line) for line in ours.get("ran") or ()]
    for name, arguments, *more in map(json.loads, theirs.get("ran") or ()):
        found = [e for e in left if [e[0], *e[2:]] == [name, *more]]
        exact = [e for e in found if e[1] == arguments]
        fitting = exact or [e for e in found if _without_first(arguments, e[1])]
        if not fitting:
            return ours
        left.remove(fitting[0])
    if left:
        return ours
    alike = {
        key: theirs[key] if key in theirs and _without_first(theirs[key], value) else value
        for key, value in ours.items()
    }
    return {**alike, "ran": theirs.get("ran")}


def _without_first(theirs: Any, ours: Any) -> bool:
    if isinstance(theirs, list) and isinstance(ours, list):
        if len(ours) == len(theirs) + 1:
            ours = ours[1:]
        return len(ours) == len(theirs) and all(
            itertools.starmap(_without_first, zip(theirs, ours, strict=True))
        )
    if isinstance(theirs, dict) and isinstance(ours, dict):
        return theirs.keys() == ours.keys() and all(
            _without_first(value, ours[key]) for key, value in theirs.items()
        )
    return bool(theirs == ours)


def keywords(theirs: Outcome, ours: Outcome) -> Pair:
    """Celery loses a keyword that is given."""
    return theirs, _without_keyword(theirs, ours)


def keywords_taken(theirs: Outcome, ours: Outcome) -> Pair:
    """A task takes a keyword there, and is immutable here."""
    return _without_keyword(ours, theirs), ours


def _without_keyword(theirs: Outcome, ours: Outcome) -> Outcome:
    """The second outcome without the keyword, if what ran is the same then."""

    def without(value: Any) -> Any:
        if isinstance(value, list):
            kept = (
                value[:-1] if value and isinstance(value[-1], dict) and "k" in value[-1] else value
            )
            return [without(each) for each in kept]
        if isinstance(value, dict):
            return {key: without(each) for key, each in value.items()}
        return value

    runs = [json.loads(line) for line in ours.get("ran") or ()]
    kept = [
        [each for each in run if not (isinstance(each, dict) and "kwargs" in each)] for run in runs
    ]
    found = {**without(ours), "ran": sorted(json.dumps(without(run)) for run in kept)}
    return found if found["ran"] == theirs.get("ran") else ours


# -- errors --------------------------------------------------------------------------------------


def which_error(theirs: Outcome, ours: Outcome) -> Pair:
    """Several tasks fail: which of their errors is told."""
    return _one_error(theirs), _one_error(ours)


def _one_error(outcome: Outcome) -> Outcome:
    found: Outcome = _rewritten(outcome, _of_some_task)
    if isinstance(found.get("get"), dict):  # of a group: that of any of its tasks
        found["get"] = _rewritten(found["get"], _reworded)
    return found


def _of_some_task(text: str) -> str:
    return NAMED.sub("<one>", OF_A_TASK.sub("its error", text))


def wording(theirs: Outcome, ours: Outcome) -> Pair:
    """Of a `ChordError`, what it says beside the error of the task."""
    return _rewritten(theirs, _reworded), _rewritten(ours, _reworded)


def _reworded(text: str) -> str:
    return CHORD_ERROR.sub("", text)


def _rewritten(outcome: Any, rewrite: Callable[[str], str]) -> Any:
    """With other texts of errors."""
    if isinstance(outcome, list):
        return [_rewritten(each, rewrite) for each in outcome]
    if not isinstance(outcome, dict):
        return outcome
    found = {key: _rewritten(value, rewrite) for key, value in outcome.items()}
    if isinstance(outcome.get("error"), str):
        found["error"] = rewrite(outcome["error"])
    if "ran" in outcome:
        found["ran"] = sorted(_retold(line, rewrite) for line in outcome["ran"])
    return found


def _retold(line: str, rewrite: Callable[[str], str]) -> str:
    name, arguments, *more = json.loads(line)
    if name != "told":
        return line
    failed, error, *own = arguments
    return json.dumps([name, [failed, rewrite(error), *own], *more])
