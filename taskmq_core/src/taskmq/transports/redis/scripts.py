"""The Lua scripts: composed of files once, known to the server by their hash.

Each command is a file of ``lua/``, put behind the files that it needs.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass

from taskmq.states import TERMINAL, TRANSITIONS
from taskmq.transports._files import read_text

__all__ = ["COMMANDS", "Script", "script"]

READING = ("modules", "store")
ALL = (*READING, "jobs", "signals", "gates", "fair", "lanes", "dependencies", "endings", "tidy")
COMMANDS: dict[str, tuple[str, ...]] = {
    "enqueue": (*ALL, "room"),
    "exchange": (*ALL, "settle", "reserve"),
    "extend": (*READING, "jobs"),
    "get": (*READING, "records"),
    "find": (*READING, "records"),
    "stats": (*READING, "jobs", "signals", "gates", "fair", "lanes"),
    "revoke": ALL,
    "delete": ALL,
    "purge": ALL,
    "replay": ALL,
    "unpark": ALL,
    "maintain": ALL,
    "reclaim": ALL,
    "register": READING,
    "deregister": READING,
    "acquire": READING,
    "surrender": READING,
    "pause": READING,
    "resume": READING,
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
    texts = [_read(part) for part in (*COMMANDS[name], name)]
    if "lanes" in COMMANDS[name]:
        texts.insert(1, _states())
    source = "\n".join(texts)
    return Script(name, source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())


@functools.cache
def _read(name: str) -> str:
    """A file without its comments: a server keeps the source of every script."""
    lines = read_text(__package__, f"lua/{name}.lua").splitlines()
    return "\n".join(line for line in lines if line.strip() and not line.lstrip().startswith("--"))


@functools.cache
def _states() -> str:
    """`taskmq.states` in Lua."""
    by_state: dict[str, list[str]] = {}
    for (state, event), result in TRANSITIONS.items():
        by_state.setdefault(state.value, []).append(f"{event.value} = '{result.value}'")
    rows = [f"{state} = {{{', '.join(events)}}}" for state, events in by_state.items()]
    ends = [f"{state.value} = true" for state in sorted(TERMINAL, key=lambda each: each.value)]
    rows += [f"{state.value} = {{}}" for state in TERMINAL if state.value not in by_state]
    return (
        f"local TRANSITIONS = {{{', '.join(sorted(rows))}}}\nlocal TERMINAL = {{{', '.join(ends)}}}"
    )
