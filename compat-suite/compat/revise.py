"""Brings a suite's expectations up to date with a run: drops what passes, adds what fails.

Classes and reasons that people wrote stay, and so do whole entries for what the real Celery does
not pass here either. What fails besides gets an entry that is made anew each time, `not-yet`, with
what the tests say as the reason; tests that say the same stand together. Where nothing passes in a
file, a class or a parametrized test, a pattern stands for it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from .expectations import NOT_YET, Expectation, Expectations
from .results import Run, by_file, file_of
from .verdict import Case, Verdict

FREQUENT = 5
"""Tests of one file that fail with the same message get a line of their own."""
REASON = 150
"""Characters of a message that make a reason."""
ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
TEMPORARY = re.compile(r"/tmp/[\w./-]+")  # noqa: S108  # found in messages, not used
MISSING_MODULE = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
MISSING_NAME = re.compile(r"ImportError: cannot import name '(\w+)' from '([\w.]+)'")


def revised(
    entries: Sequence[Expectation],
    judged: Mapping[str, tuple[Verdict, Run]],
    pairs: Sequence[str],
) -> list[Expectation]:
    """The new entries of a suite: from the verdict and the baseline of each pair that was run.

    What counts for pairs that were not run is left alone.
    """
    found: list[Expectation] = []
    for pair in pairs or ("",):
        mine = [each for each in entries if each.counts_for(pair)]
        if pair in judged:
            verdict, baseline = judged[pair]
            mine = revised_for([each for each in mine if not each.made], verdict, baseline)
        found += [replace(each, pairs=(pair,) if pair else ()) for each in mine]
    return merged(found, pairs)


def revised_for(
    entries: Sequence[Expectation], verdict: Verdict, baseline: Run
) -> list[Expectation]:
    """The same for one pair, all of whose entries these are."""
    tests = baseline.passed()
    asked = [Expectations([replace(entry, pairs=())]) for entry in entries]
    wanted: dict[int, list[str]] = {}
    new: list[Case] = []
    for case in verdict.failing:
        number = next((n for n, each in enumerate(asked) if each.of(case.test) is not None), None)
        if number is None:
            new.append(case)
        else:
            wanted.setdefault(number, []).append(case.test)
    found = [
        entry if entry.may_pass else replace(entry, tests=shortened(wanted[number], tests))
        for number, entry in enumerate(entries)
        if number in wanted or entry.may_pass
    ]
    for reason, cases in grouped(new):
        names = shortened([case.test for case in cases], tests)
        found.append(Expectation(NOT_YET, reason, names, made=True))
    return found


def merged(entries: Iterable[Expectation], pairs: Sequence[str]) -> list[Expectation]:
    """Entries that say the same for several pairs are one; for all pairs, they name none."""
    together: dict[Expectation, list[str]] = {}
    for each in entries:
        together.setdefault(replace(each, pairs=()), []).extend(each.pairs)
    return [
        replace(each, pairs=() if set(found) == set(pairs) else tuple(found))
        for each, found in together.items()
    ]


def grouped(cases: Iterable[Case]) -> list[tuple[str, list[Case]]]:
    """By what they say; messages that are rare in a file are one group of that file."""
    said = {case.test: message_of(case) for case in cases}
    whole = Counter(said.values())
    groups: dict[str, list[Case]] = {}
    rare: dict[str, list[Case]] = {}
    for case in cases:
        message = said[case.test]
        if whole[message] >= FREQUENT:
            groups.setdefault(message, []).append(case)
        else:
            rare.setdefault(file_of(case.test), []).append(case)
    for file, members in rare.items():
        messages = Counter(said[case.test] for case in members)
        common, count = messages.most_common(1)[0]
        if len(messages) == 1:
            groups.setdefault(common, []).extend(members)
        else:
            name = file.rpartition("/")[2]
            groups[f"{name}: {len(messages)} different failures, {count} of them {common}"] = (
                members
            )
    return list(groups.items())


def message_of(case: Case) -> str:
    """What a test says, without what changes from run to run."""
    message = case.result.message or case.result.outcome
    message = TEMPORARY.sub("…", ADDRESS.sub("0x…", message))
    module = MISSING_MODULE.search(message)
    if module is not None:
        return f"no module {module[1]}"
    name = MISSING_NAME.search(message)
    if name is not None:
        return f"no {name[1]} in {name[2]}"
    if len(message) > REASON:
        message = f"{message[:REASON].rstrip()}…"
    return message


def shortened(names: Iterable[str], tests: Iterable[str]) -> tuple[str, ...]:
    """Patterns for the names; no other of the tests fits one."""
    named = set(names)
    every = by_file(sorted(tests))
    found: list[str] = []
    for file in by_file(sorted(named)):
        found += fold(file, "::", every.get(file, ()), named)
    return tuple(found)


def fold(prefix: str, divider: str, tests: Sequence[str], named: Collection[str]) -> list[str]:
    """A pattern for all tests that begin so, if all are named; else one for each branch below."""
    inside = [test for test in tests if test in named]
    if not inside:
        return []
    if len(inside) == len(tests) and len(tests) > 1:
        return [f"{prefix}{divider}*"]
    if len(tests) == 1:
        return inside
    branches: dict[tuple[str, str], list[str]] = {}
    for test in tests:
        branches.setdefault(branch(test, len(prefix) + len(divider)), []).append(test)
    if len(branches) == 1 and next(iter(branches))[1] == "":
        return inside
    found: list[str] = []
    for (start, next_divider), members in branches.items():
        if next_divider:
            found += fold(start, next_divider, members, named)
        else:
            found += [test for test in members if test in named]
    return found


def branch(test: str, position: int) -> tuple[str, str]:
    """How a test's name goes on up to the next ``::`` or ``[``, and which of them it is."""
    brackets = test.find("[", position)
    colons = test.find("::", position, None if brackets < 0 else brackets)
    if colons >= 0:
        return test[:colons], "::"
    if brackets >= 0:
        return test[:brackets], "["
    return test, ""
