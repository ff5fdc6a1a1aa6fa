"""The Lua scripts: composed of files once, known to the server by their hash.

Each command is a file of ``lua/``, put behind the files that it needs.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from taskmq.states import TERMINAL, TRANSITIONS, JobState
from taskmq.transport import MOST_READIED
from taskmq.transports._files import read_text

__all__ = ["COMMANDS", "Script", "script"]

READING = ("modules", "store")
LANES = (*READING, "jobs", "signals", "gates", "passes", "fair", "lanes", "moves")
ALL = (*LANES, "dependencies", "endings", "tidy")
COMMANDS: dict[str, tuple[str, ...]] = {
    "enqueue": (*ALL, "room", "intake"),
    "enqueue_one": (),
    "enqueue_plain": (),
    "exchange": ("marks", "lone", *ALL, "room", "intake", "plain", "settle", "reserve"),
    "extend": LANES,
    "get": (*READING, "records"),
    "find": (*READING, "records"),
    "lookup": READING,
    "stats": LANES,
    "revoke": ALL,
    "delete": ALL,
    "purge": ALL,
    "replay": ALL,
    "unpark": ALL,
    "maintain": ALL,
    "reclaim": ALL,
    "register": READING,
    "workers": READING,
    "deregister": READING,
    "acquire": READING,
    "surrender": READING,
    "pause": READING,
    "resume": READING,
    "pause_workflow": READING,
    "resume_workflow": LANES,
    "write": READING,
}
"""Each script, and the files that come before its own."""


@dataclass(frozen=True)
class Script:
    """One command: its source, and the hash that EVALSHA calls it by."""

    name: str
    source: str
    sha: str


@functools.cache
def script(name: str) -> Script:
    """The script of a command."""
    parts = COMMANDS[name]
    texts = [_module(part) if part in MODULES else _read(part) for part in parts]
    source = "\n".join([*texts, _read(name)])
    return Script(name, source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())


def _module(name: str) -> str:
    """A file whose functions are made when they are first asked for."""
    constants = MODULES[name]
    text = f"{constants()}\n{_read(name)}" if constants else _read(name)
    return f"lazily({name.capitalize()}, function()\n{text}\nend)"


@functools.cache
def _read(name: str) -> str:
    """A file without its comments: a server keeps the source of every script."""
    lines = read_text(__package__, f"lua/{name}.lua").splitlines()
    return "\n".join(line for line in lines if line.strip() and not line.lstrip().startswith("--"))


def _transitions() -> str:
    """`taskmq.states.TRANSITIONS` in Lua, by state and event."""
    by_state: dict[str, list[str]] = {state.value: [] for state in JobState}
    for (state, event), result in TRANSITIONS.items():
        by_state[state.value].append(f"{event.value} = '{result.value}'")
    rows = [f"{state} = {{{', '.join(events)}}}" for state, events in by_state.items()]
    return f"local TRANSITIONS = {{{', '.join(rows)}}}"


def _terminal() -> str:
    """`taskmq.states.TERMINAL` in Lua."""
    ends = sorted(state.value for state in TERMINAL)
    return f"local TERMINAL = {{{', '.join(f'{state} = true' for state in ends)}}}"


MODULES: dict[str, Callable[[], str] | None] = {
    "jobs": None,
    "signals": None,
    "gates": None,
    "passes": None,
    "fair": None,
    "lanes": _terminal,
    "moves": lambda: f"{_terminal()}\n{_transitions()}",
    "dependencies": lambda: f"local MOST_READIED = {MOST_READIED}",
    "endings": None,
    "tidy": None,
    "room": None,
    "intake": None,
    "plain": None,
    "settle": None,
    "reserve": None,
}
"""The files that make functions of a table of their name, and the constants that they need."""
