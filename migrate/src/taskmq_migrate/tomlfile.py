"""A TOML file: read with tomlkit, edited in place."""

from __future__ import annotations

import difflib
from collections.abc import Callable

import tomlkit
from tomlkit.exceptions import TOMLKitError

from .document import Document
from .facts import Facts
from .model import Edit, Kind
from .problems import Unreadable

__all__ = ["TomlFile"]


class TomlFile(Document):
    """A TOML document."""

    def __init__(self, path: str, text: str, facts: Facts) -> None:
        super().__init__(path, Kind.TOML, text, facts)
        self.data = self._parse()

    def _parse(self) -> tomlkit.TOMLDocument:
        try:
            data = tomlkit.parse(self.text)
        except TOMLKitError as error:
            raise Unreadable(f"is no TOML: {error}") from None
        if tomlkit.dumps(data) != self.text:
            raise Unreadable("the parser does not give it back unchanged")
        return data

    def changed(self, change: Callable[[tomlkit.TOMLDocument], None]) -> tuple[Edit, ...]:
        """The edits that a change of the parsed document comes to; untouched lines stay."""
        data = self._parse()
        change(data)
        return _line_edits(self.text, tomlkit.dumps(data))


def _line_edits(old: str, new: str) -> tuple[Edit, ...]:
    """One edit for each run of lines that differ."""
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    starts = [0]
    for line in before:
        starts.append(starts[-1] + len(line))
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    return tuple(
        Edit(starts[a1], starts[a2], ("".join(after[b1:b2]),))
        for tag, a1, a2, b1, b2 in matcher.get_opcodes()
        if tag != "equal"
    )
