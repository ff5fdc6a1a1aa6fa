"""ISO 8601 text to datetimes. New programs use ``datetime.fromisoformat``."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import Any

from .deprecated import warn

__all__ = ("parse_iso8601",)

ISO8601_REGEX = re.compile(
    r"(?P<year>\d{4})(?:-(?P<month>\d\d?)(?:-(?P<day>\d\d?)"
    r"(?:.(?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<fraction>\d+))?)?"
    r"(?P<zone>Z|[-+]\d\d:?\d\d)?)?)?)?"
)
TIMEZONE_REGEX = re.compile(r"(?P<sign>[-+])(?P<hours>\d\d):?(?P<minutes>\d\d)")


def parse_iso8601(datestring: str) -> datetime:
    """The moment that a text in ISO 8601 names; naive without a zone.

    Raises ``ValueError`` for other text, ``TypeError`` for a year without month and day.
    """
    warn(
        "parse_iso8601",
        "v5.3",
        "v6",
        "datetime.datetime.fromisoformat or dateutil.parser.isoparse",
        stacklevel=3,
    )
    found = ISO8601_REGEX.match(datestring)
    if found is None:
        raise ValueError(f"unable to parse date string {datestring!r}")
    parts: dict[str, Any] = found.groupdict()
    fraction = f"{parts['fraction'] or 0:0<6}"[:6]
    return datetime(
        int(parts["year"]),
        int(parts["month"]),
        int(parts["day"]),
        int(parts["hour"] or 0),
        int(parts["minute"] or 0),
        int(parts["second"] or 0),
        int(fraction),
        _zone(parts["zone"]),
    )


def _zone(text: str | None) -> timezone | None:
    if text is None:
        return None
    found = TIMEZONE_REGEX.match(text)
    if found is None:
        return timezone.utc  # "Z"
    offset = timedelta(hours=int(found["hours"]), minutes=int(found["minutes"]))
    return timezone(-offset if found["sign"] == "-" else offset)
