"""The scripts: whole, alike in states with the engine, and documented."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from taskmq.states import TRANSITIONS
from taskmq.transports.redis.scripts import COMMANDS, MODULES, script

FOLDER = files("taskmq.transports.redis") / "lua"
NAMES = sorted(item.name.removesuffix(".lua") for item in FOLDER.iterdir())


def test_every_file_is_part_of_a_script() -> None:
    used = {part for parts in COMMANDS.values() for part in parts} | set(COMMANDS)
    assert sorted(used) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_file_begins_with_what_it_is(name: str) -> None:
    text = (FOLDER / f"{name}.lua").read_text()
    assert text.startswith("-- ")
    assert text.count("\n") <= 260


def test_transitions_are_those_of_the_engine() -> None:
    source = script("exchange").source
    table = re.search(r"local TRANSITIONS = \{(.*)\}$", source, re.MULTILINE)
    assert table is not None
    found = {
        (state, event, result)
        for state, events in re.findall(r"(\w+) = \{([^}]*)\}", table[1])
        for event, result in re.findall(r"(\w+) = '(\w+)'", events)
    }
    wanted = {(state.value, event.value, to.value) for (state, event), to in TRANSITIONS.items()}
    assert found == wanted


def test_a_module_goes_to_the_table_of_its_name() -> None:
    declared = (FOLDER / "modules.lua").read_text()
    for name in MODULES:
        assert re.search(rf"\b{name.capitalize()}\b", declared)
