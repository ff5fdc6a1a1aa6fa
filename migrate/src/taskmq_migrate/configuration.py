"""Settings of a project: the table ``tool.taskmq-migrate`` of its ``pyproject.toml``."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from .model import Target
from .problems import Refused

__all__ = ["Settings", "load"]


@dataclass(frozen=True)
class Settings:
    """What a project can set; options of the command line go first."""

    to: str = ""
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    unsafe: bool = False
    strict: bool = False
    jobs: int = 0


def load(root: Path) -> Settings:
    """The settings of the project at ``root``; raises `Refused` for what is not understood."""
    path = root / "pyproject.toml"
    if not path.exists():
        return Settings()
    try:
        data: Any = tomlkit.parse(path.read_text("utf-8")).unwrap()
    except (TOMLKitError, UnicodeDecodeError):
        return Settings()  # the run reports it, as it does any file
    table = data.get("tool", {}).get("taskmq-migrate", {})
    known = {each.name: each.default for each in fields(Settings)}
    values: dict[str, Any] = {}
    for key, value in table.items():
        where = f"{path.name}: tool.taskmq-migrate.{key}"
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
            raise Refused(f"{where} is no setting: {hint}")
        values[key] = _checked(where, value, known[key])
    found = Settings(**values)
    if found.to and found.to not in {each.value for each in Target}:
        raise Refused(f"pyproject.toml: tool.taskmq-migrate.to is {found.to!r}: shim or native")
    return found


def _checked(where: str, value: Any, default: Any) -> Any:
    if isinstance(default, tuple):
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise Refused(f"{where} has to be a list of strings")
        return tuple(value)
    if type(value) is not type(default):
        names = {bool: "true or false", int: "a whole number", str: "a string"}
        raise Refused(f"{where} has to be {names[type(default)]}")
    return value
