"""The table of transitions, and the page that draws it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from taskmq.states import TERMINAL, TRANSITIONS, Event, JobState, next_state

PAGE = (Path(__file__).parents[2] / "docs" / "states.md").read_text()
TABLE = {(state.value, event.value, target.value) for (state, event), target in TRANSITIONS.items()}


def test_drawing_shows_exactly_the_transitions() -> None:
    arrows = re.findall(r"^ +(\w+) --> (\w+): (\w+)$", PAGE, re.MULTILINE)
    assert {(source, event, target) for source, target, event in arrows} == TABLE
    assert len(arrows) == len(TABLE)


def test_drawing_shows_exactly_the_ends() -> None:
    ends = re.findall(r"^ +(\w+) --> \[\*\]$", PAGE, re.MULTILINE)
    assert set(ends) == {state.value for state in TERMINAL}


def test_event_table_lists_exactly_the_transitions() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([A-Z, ]+) \| ([A-Z]+) \|", PAGE, re.MULTILINE)
    listed = {(source, event, to) for event, sources, to in rows for source in sources.split(", ")}
    assert listed == TABLE


def test_every_state_is_described() -> None:
    described = re.findall(r"^\| `([A-Z]+)` \|", PAGE, re.MULTILINE)
    assert described == [state.value for state in JobState]


def test_transition_of_the_table() -> None:
    assert next_state(JobState.RUNNING, Event.ACK) is JobState.SUCCEEDED


def test_event_without_a_transition_has_no_effect() -> None:
    assert next_state(JobState.SUCCEEDED, Event.REVOKE) is None


def test_only_replays_leave_an_end() -> None:
    leaving = {event for (state, event) in TRANSITIONS if state in TERMINAL}
    assert leaving == {Event.REPLAY, Event.DEPENDENCY_REPLAYED}


def test_unknown_is_no_stored_state() -> None:
    assert JobState.UNKNOWN not in {state for state, _ in TRANSITIONS} | set(TRANSITIONS.values())


@pytest.mark.parametrize("state", JobState)
def test_state_is_its_name(state: JobState) -> None:
    assert state == state.name
    assert f"{state}" == str(state) == state.name
