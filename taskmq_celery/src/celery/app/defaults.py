"""Defaults of the settings, and how to find a setting by a part of its name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

from celery.utils.serialization import strtobool as strtobool
from taskmq_celery.settings import LOG_FORMAT, NEW_NAMES, SETTINGS, TASK_LOG_FORMAT

__all__ = ("NAMESPACES", "Option", "find", "flatten")

DEFAULT_POOL = "prefork"
DEFAULT_ACCEPT_CONTENT = ("json",)
DEFAULT_PROCESS_LOG_FMT = LOG_FORMAT
DEFAULT_TASK_LOG_FMT = TASK_LOG_FORMAT

TYPES: dict[str, Any] = {
    "any": lambda value: value,
    "bool": lambda value: str(value).strip().lower() in ("1", "true", "t", "yes", "y", "on"),
    "bytes": lambda value: value.encode() if isinstance(value, str) else bytes(value),
    "dict": dict,
    "float": float,
    "int": int,
    "list": list,
    "str": str,
    "tuple": tuple,
}


class Option:
    """One setting: ``type`` is the name of its kind, ``old`` its former names, ``alt`` the
    setting to use instead, ``deprecate_by`` and ``remove_by`` versions."""

    typemap = TYPES
    alt: Any = None
    deprecate_by: str | None = None
    remove_by: str | None = None
    old: ClassVar[set[str]] = set()
    type = "str"

    def __init__(self, default: Any = None, *args: Any, **kwargs: Any):
        self.default = default
        for name, value in (*zip(("type",), args, strict=False), *kwargs.items()):
            setattr(self, name, value)

    def to_python(self, value: Any) -> Any:
        """A value given as text, as what the setting wants."""
        return TYPES[self.type](value)

    def __repr__(self) -> str:
        return f"<Option: type->{self.type} default->{self.default!r}>"


class searchresult(NamedTuple):  # noqa: N801  # Celery's name
    """Where a setting was found."""

    namespace: str | None
    key: str
    type: Option


SETTING_KEYS = set(SETTINGS)
DEFAULTS: dict[str, Any] = {name: setting.default for name, setting in SETTINGS.items()}
OPTIONS = {
    name: Option(setting.default, type=setting.kind, old={setting.old_name.lower()})
    for name, setting in SETTINGS.items()
}
_TO_OLD_KEY = {name: setting.old_name for name, setting in SETTINGS.items()}
_TO_NEW_KEY = dict(NEW_NAMES)
_OLD_DEFAULTS = {setting.old_name: setting.default for setting in SETTINGS.values()}
_OLD_SETTING_KEYS = frozenset(_OLD_DEFAULTS)


def _by_section() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, option in OPTIONS.items():
        section, _, key = name.partition("_")
        if not key or name in ("accept_content", "enable_utc"):
            found[name] = option
        else:
            found.setdefault(section, {})[key] = option
    return found


NAMESPACES: dict[str, Any] = _by_section()
"""Options by section and name: ``NAMESPACES["worker"]["pool"]``."""


def _named(section: str, key: str, option: Any) -> Iterable[tuple[str, Any]]:
    return [(f"{section}{key}", option)]


def flatten(
    d: Mapping[str, Any],
    root: str = "",
    keyfilter: Callable[[str, str, Any], Iterable[Any]] = _named,
) -> Iterator[Any]:
    """Every option of sections such as `NAMESPACES`, with the name of its setting.

    ``keyfilter`` gives what is said of an option instead, for the sections it is in, each with an
    underscore behind it and ``root`` before them, its key and itself.
    """
    for key, option in d.items():
        if isinstance(option, Mapping):
            yield from flatten(option, f"{root}{key}_", keyfilter)
        else:
            yield from keyfilter(root, key, option)


def find(name: str, namespace: str = "celery") -> searchresult:
    """A setting by its name with or without the section: ``find("always_eager")``.

    Raises ``KeyError`` if no section has it.
    """
    name = name.lower()
    for candidate in (name, f"{namespace.lower()}_{name}"):
        if candidate in OPTIONS:
            section, _, key = candidate.partition("_")
            return searchresult(section if key else None, key or candidate, OPTIONS[candidate])
    for full, option in OPTIONS.items():
        section, _, key = full.partition("_")
        if key == name:
            return searchresult(section, key, option)
    raise KeyError(name)
