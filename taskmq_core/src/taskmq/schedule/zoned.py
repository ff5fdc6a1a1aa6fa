"""From wall times to instants: what becomes of a schedule where clocks are put forward or back.

An expression with a star in front of its minute or hour ("every 20 minutes") follows elapsed time:
wall times that do not exist are left out, those that come twice count twice. Every other one
names a time of the day, and runs once: if that time does not exist, at the first instant after
the gap; if it comes twice, the first time. (The same as in the cron of Debian.)

Between two changes of a zone's offset, wall times and instants run in parallel; all that is done
here is to stay between two changes, or to go to the next one.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone, tzinfo

from .fields import Fields

__all__ = ["next_instant"]

UTC = timezone.utc
MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)
NEAR = timedelta(hours=25)
"""More than clocks are ever put back by."""


def next_instant(fields: Fields, after: datetime, zone: tzinfo) -> datetime | None:
    """The first instant later than ``after`` (aware) that an expression names in a zone, in UTC.
    ``None`` if there is none within 45 years."""
    find = _next_elapsed if fields.follows_clock else _next_time_of_day
    return find(fields, after.astimezone(UTC), zone)


def _next_elapsed(fields: Fields, after: datetime, zone: tzinfo) -> datetime | None:
    start, earliest = after, _floor(_wall(after, zone)) + MINUTE
    while True:
        offset = _offset(start, zone)
        wall = fields.next_wall(earliest)
        if wall is None:
            return None
        found = (wall - offset).replace(tzinfo=UTC)
        # Clocks that are put back soon bring wall times again that are before ``earliest``.
        for limit in (min(found, start + NEAR), found):
            if _offset(limit, zone) != offset:
                start = _change(start, limit, zone)
                earliest = _ceil(_wall(start, zone))
                break
        else:
            return found


def _next_time_of_day(fields: Fields, after: datetime, zone: tzinfo) -> datetime | None:
    earliest = _floor(_wall(after, zone)) + MINUTE
    while (wall := fields.next_wall(earliest)) is not None:
        found = wall.replace(tzinfo=zone).astimezone(UTC)
        if _wall(found, zone) != wall:
            before = wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
            found = _change(before, found, zone)
        if found > after:
            return found
        earliest = wall + MINUTE
    return None


def _change(before: datetime, after: datetime, zone: tzinfo) -> datetime:
    """The instant between two, to the second, from which on the offset is no longer the first's."""
    offset = _offset(before, zone)
    low, high = 0, int((after - before) / SECOND) + 1
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(before + middle * SECOND, zone) == offset:
            low = middle
        else:
            high = middle
    return min((before + high * SECOND).replace(microsecond=0), after)


def _wall(instant: datetime, zone: tzinfo) -> datetime:
    return instant.astimezone(zone).replace(tzinfo=None, fold=0)


def _offset(instant: datetime, zone: tzinfo) -> timedelta:
    return _wall(instant, zone) - instant.astimezone(UTC).replace(tzinfo=None)


def _floor(wall: datetime) -> datetime:
    return wall.replace(second=0, microsecond=0)


def _ceil(wall: datetime) -> datetime:
    floor = _floor(wall)
    return floor if floor == wall else floor + MINUTE
