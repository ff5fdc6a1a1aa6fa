"""What the commands print: aligned, and coloured only for a terminal that wants it."""

from __future__ import annotations

import datetime
import os
import sys
from collections.abc import Mapping, Sequence
from typing import IO, Any

import msgspec

__all__ = ["Printer", "wants_color"]

CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}


def wants_color(stream: IO[str], environ: Mapping[str, str] = os.environ) -> bool:
    """Whether to colour: on a terminal, unless NO_COLOR is set (https://no-color.org)."""
    return stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def _zone(name: str) -> datetime.tzinfo:
    if name == "UTC":
        return datetime.timezone.utc
    import zoneinfo  # as in `taskmq.config`

    return zoneinfo.ZoneInfo(name)


class Printer:
    """Writes to one stream. Without colour, `style` changes nothing."""

    def __init__(
        self, stream: IO[str] | None = None, *, timezone: str = "UTC", color: bool | None = None
    ) -> None:
        self.stream = stream or sys.stdout
        self._color = wants_color(self.stream) if color is None else color
        self._zone = _zone(timezone)

    def line(self, text: str = "") -> None:
        self.stream.write(f"{text.rstrip()}\n")

    def write(self, text: str) -> None:
        self.stream.write(text)

    def flush(self) -> None:
        self.stream.flush()

    def json(self, value: Any) -> None:
        """One JSON document, indented."""
        data = msgspec.json.format(msgspec.json.encode(value, enc_hook=repr), indent=2)
        self.line(data.decode())

    def style(self, name: str, text: str) -> str:
        return f"\x1b[{CODES[name]}m{text}\x1b[0m" if self._color and text else text

    def heading(self, text: str) -> None:
        self.line(self.style("bold", text))

    def table(self, headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Columns as wide as they need to be; a column of numbers stands to the right. Only the
        last column may be styled."""
        if not rows:
            self.line("  none")
            return
        texts = [[str(value) for value in row] for row in rows]
        widths = [max(map(len, column)) for column in zip(headers, *texts, strict=True)]
        right = [all(isinstance(row[i], int) for row in rows) for i in range(len(headers))]
        for number, row in enumerate([list(headers), *texts]):
            cells = [
                text.rjust(width) if at_right else text.ljust(width)
                for text, width, at_right in zip(row, widths, right, strict=True)
            ]
            text = "  ".join(cells).rstrip()
            self.line("  " + (self.style("dim", text) if number == 0 else text))

    def facts(self, facts: Mapping[str, object]) -> None:
        """Names and values below each other; those without a value are left out."""
        shown = {name: value for name, value in facts.items() if value not in (None, "")}
        width = max(map(len, shown), default=0)
        for name, value in shown.items():
            self.line(f"  {self.style('dim', name.ljust(width))}  {value}")

    def instant(self, at: float) -> str:
        """Epoch seconds in the app's time zone."""
        moment = datetime.datetime.fromtimestamp(at, self._zone)
        return moment.strftime("%Y-%m-%d %H:%M:%S %Z")
