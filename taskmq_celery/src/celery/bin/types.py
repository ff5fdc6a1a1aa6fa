"""How the command line reads values: lists, JSON, instants, levels, pools."""

from __future__ import annotations

import datetime
import json
from typing import TYPE_CHECKING, Any

import click
from click import Context, Parameter

from celery.utils.log import mlevel
from celery.utils.sysinfo import AUTO_CONCURRENCY

if TYPE_CHECKING:
    ParamType = click.ParamType[Any]
    Choice = click.Choice[str]
else:
    # Generic since click 8.2.
    ParamType, Choice = click.ParamType, click.Choice

__all__ = [
    "AUTOSCALE",
    "COMMA_SEPARATED_LIST",
    "CONCURRENCY",
    "ISO8601",
    "ISO8601_OR_FLOAT",
    "JSON_ARRAY",
    "JSON_OBJECT",
    "LOG_LEVEL",
]


class CommaSeparatedList(ParamType):
    """``a,b,c``; blanks around the commas and empty parts do not count."""

    name = "comma separated list"

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> list[str]:
        if isinstance(value, (list, tuple)):
            return list(value)
        return [part.strip() for part in str(value).split(",") if part.strip()]


class JsonArray(ParamType):
    """A JSON list."""

    name = "json array"

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> list[Any]:
        found = _json(self, value, param, ctx)
        if not isinstance(found, list):
            self.fail(f"{value} was not an array", param, ctx)
        return found


class JsonObject(ParamType):
    """A JSON object."""

    name = "json object"

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> dict[str, Any]:
        found = _json(self, value, param, ctx)
        if not isinstance(found, dict):
            self.fail(f"{value} was not an object", param, ctx)
        return found


def _json(kind: ParamType, value: Any, param: Parameter | None, ctx: Context | None) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError as error:
        kind.fail(str(error), param, ctx)


class ISO8601DateTime(ParamType):
    """An instant such as ``2030-01-31T12:00:00``; without a time zone it is in UTC."""

    name = "iso-86091"

    def convert(
        self, value: Any, param: Parameter | None, ctx: Context | None
    ) -> datetime.datetime:
        from dateutil.parser import isoparse  # only for those who name an instant

        try:
            when = isoparse(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return when if when.tzinfo else when.replace(tzinfo=datetime.timezone.utc)


class ISO8601DateTimeOrFloat(ISO8601DateTime):
    """An instant, or seconds from now."""

    name = "iso-86091 or float"

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> Any:
        try:
            return float(value)
        except ValueError:
            return super().convert(value, param, ctx)


class LogLevel(Choice):
    """A level's name, in any case, as its number."""

    def __init__(self) -> None:
        super().__init__(("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL", "FATAL"))

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> Any:
        if isinstance(value, int):
            return value
        return mlevel(super().convert(str(value).upper(), param, ctx))


class Autoscale(ParamType):
    """``max,min`` or ``max``, as the two numbers in that order."""

    name = "<min workers>, <max workers>"

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> tuple[int, int]:
        parts = str(value).split(",")
        if len(parts) > 2:
            self.fail(
                f"Expected two comma separated integers or one integer. Got {value!r} instead."
            )
        try:
            first, second = int(parts[0]), int(parts[-1]) if len(parts) == 2 else 0
        except ValueError:
            self.fail(f"Expected an integer. Got {value!r} instead.", param, ctx)
        return max(first, second), min(first, second)


class Concurrency(ParamType):
    """A number of slots; ``auto`` and 0 leave it to the worker."""

    name = "concurrency"

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> Any:
        text = str(value).strip().lower()
        if text == AUTO_CONCURRENCY:
            return text
        if not text.isdecimal():
            self.fail(f"must be a non-negative integer or 'auto', got {value!r}", param, ctx)
        return int(text)


COMMA_SEPARATED_LIST = CommaSeparatedList()
JSON_ARRAY = JsonArray()
JSON_OBJECT = JsonObject()
ISO8601 = ISO8601DateTime()
ISO8601_OR_FLOAT = ISO8601DateTimeOrFloat()
LOG_LEVEL = LogLevel()
AUTOSCALE = Autoscale()
CONCURRENCY = Concurrency()
