"""The configuration of an app, and small things about apps.

`Settings` reads, in this order: what was set on it (or given to ``Celery(...)``), the
configuration source, the defaults. A name is understood in its new spelling, its old upper-case
one and, where the source has a namespace, with that prefix.
"""

from __future__ import annotations

import copy
import difflib
import logging
import os
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any

from kombu.utils.imports import symbol_by_name

from taskmq_celery.settings import NEW_NAMES, SETTINGS, WITHOUT_DEFAULT

from .defaults import find, searchresult
from .redact import MASK, sanitize_url

__all__ = (
    "Settings",
    "appstr",
    "bugreport",
    "filter_hidden_settings",
    "find_app",
    "sanitize_url",
)

logger = logging.getLogger(__name__)

HIDDEN = ("API", "TOKEN", "KEY", "SECRET", "PASS", "PROFANITIES_LIST", "SIGNATURE", "DATABASE")
NOT_SETTINGS = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, type)


class Source:
    """Where settings come from: a mapping, or any object with attributes. Read when asked, so
    that a change in the source is seen."""

    def __init__(self, source: Any, namespace: str | None = None) -> None:
        self.source = source
        self.prefix = f"{namespace}_" if namespace else ""
        self._is_mapping = isinstance(source, Mapping)

    def spellings(self, name: str) -> list[str]:
        """How a setting may be written here."""
        setting = SETTINGS.get(name)
        written = [name] if not self.prefix else []
        if self.prefix:
            written.append(self.prefix + (name.upper() if self.prefix.isupper() else name))
        if setting is not None:
            written.append(setting.old_name)
        return written

    def get(self, name: str, missing: Any) -> Any:
        for written in self.spellings(name):
            value = self._read(written, missing)
            if value is not missing:
                return value
        return missing

    def names(self) -> Iterator[str]:
        """The settings that are written here, by their new names."""
        for written in self._written():
            if written in NEW_NAMES:
                yield NEW_NAMES[written]
            elif self.prefix and written.startswith(self.prefix):
                yield written[len(self.prefix) :].lower()
            elif not self.prefix and not written.startswith("_"):
                yield written

    def _read(self, name: str, missing: Any) -> Any:
        if self._is_mapping:
            return self.source.get(name, missing)
        return getattr(self.source, name, missing)

    def _written(self) -> Iterable[str]:
        if self._is_mapping:
            return list(self.source)
        if self.prefix:  # the other attributes are somebody else's: they are not even looked at
            return [
                name
                for name in dir(self.source)
                if name.startswith(self.prefix) or name in NEW_NAMES
            ]
        return [
            name
            for name in dir(self.source)
            if name in SETTINGS or not isinstance(getattr(self.source, name, None), NOT_SETTINGS)
        ]


class Settings(MutableMapping[str, Any]):
    """``app.conf``: settings as attributes and as items.

    Made of what is set: mappings, the first of which goes first, and single settings by name.
    ``deprecated_settings`` are those of which `maybe_warn_deprecated_settings` warns.
    ``revision`` is raised by every change.
    """

    def __init__(
        self, *args: Any, deprecated_settings: set[str] | None = None, **kwargs: Any
    ) -> None:
        own = vars(self)
        own["_changes"] = {}
        own["_known"] = {}
        own["_defaults"] = {}
        own["_extra_defaults"] = []
        own["_load"] = None
        own["_loaded"] = own["_changed"] = lambda *told: None
        own["_source"] = None
        own["_loading"] = False
        own["_told"] = set()
        own["deprecated_settings"] = set(deprecated_settings or ())
        own["namespace"] = None
        own["revision"] = 0
        for changes in (*reversed(args), kwargs):
            for name, value in (changes or {}).items():
                self[name] = value

    @classmethod
    def reading(
        cls,
        load: Callable[[], Source | None],
        changes: Mapping[str, Any],
        *,
        namespace: str | None,
        loaded: Callable[[], Any],
        changed: Callable[[str | None], Any],
    ) -> Settings:
        """What was set, and a source that ``load`` gives when the first setting is read; writing
        does not need it. ``loaded`` is called then, and ``changed`` after every change here, with
        the name of the setting, or ``None`` if it may be any."""
        made = cls()
        own = vars(made)
        own.update(_load=load, _loaded=loaded, _changed=changed, namespace=namespace)
        made.update(changes)
        return made

    # -- names -------------------------------------------------------------------------------

    def _name(self, name: str) -> str:
        """The new name of a setting, whatever its spelling."""
        if name in SETTINGS:
            return name
        if name in NEW_NAMES:
            return NEW_NAMES[name]
        prefix = f"{self.namespace}_" if self.namespace else None
        if prefix and name.startswith(prefix):
            return name[len(prefix) :].lower()
        return name

    # -- reading and writing -----------------------------------------------------------------

    def __getitem__(self, name: str) -> Any:
        known = self._known  # this one: a change in another thread begins with an empty one
        if name in known:
            value = known[name]
        else:
            value = self._find(name if name in SETTINGS else self._name(name), _MISSING)
            if not self.is_live:
                known[name] = value
        if value is _MISSING:
            raise KeyError(name)
        return value

    def _find(self, name: str, missing: Any) -> Any:
        if name in self._changes:
            return self._changes[name]
        if self._load is not None:
            self.load()
        if self._source is not None:
            value = self._source.get(name, missing)
            if value is not missing:
                return value
        for defaults in self._extra_defaults:
            if name in defaults:
                return defaults[name]
        if name in self._defaults:
            return self._defaults[name]
        if name not in SETTINGS:
            return missing
        default = SETTINGS[name].default
        if isinstance(default, (dict, list, set)):  # may be changed in place: each app has its own
            default = self._defaults[name] = copy.copy(default)
        return default

    def __setitem__(self, name: str, value: Any) -> None:
        name = self._name(name)
        self._changes[name] = value
        self.touch(name)
        if self.is_loaded:
            self._warn_of_unknown([name])

    def __delitem__(self, name: str) -> None:
        name = self._name(name)
        del self._changes[name]
        self.touch(name)

    def clear(self) -> None:
        """Forget what was set here; the configuration source stays."""
        self._changes.clear()
        self.touch()

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Set a value where none was set, whatever the setting's own default is; the value."""
        if not self.value_set_for(key):
            self[key] = default
        return self[key]

    def touch(self, name: str | None = None) -> None:
        """Say that a setting changed, or any, so that what was built from it is built anew."""
        own = vars(self)
        own["revision"] += 1
        own["_known"] = {}
        self._changed(name)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._find(self._name(name), _MISSING) is not _MISSING

    def __iter__(self) -> Iterator[str]:
        self.load()
        names = dict.fromkeys(SETTINGS)
        for defaults in self._extra_defaults:
            names.update(dict.fromkeys(defaults))
        if self._source is not None:
            names.update(dict.fromkeys(self._source.names()))
        names.update(dict.fromkeys(self._changes))
        return iter(names)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        value = self._known.get(name, _MISSING)
        if value is not _MISSING:
            return value
        try:
            return self[name]
        except KeyError:
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}"
            ) from None

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "changes":
            object.__setattr__(self, name, value)
        else:
            self[name] = value

    def __delattr__(self, name: str) -> None:
        try:
            del self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __copy__(self) -> Settings:
        return Settings(dict(self))

    copy = __copy__

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.without_defaults()!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self.without_defaults()),)

    # -- settings that are more than a value --------------------------------------------------

    @property
    def broker_url(self) -> str | None:
        """The environment variable ``CELERY_BROKER_URL`` goes first."""
        return os.environ.get("CELERY_BROKER_URL") or self["broker_url"]

    @property
    def broker_read_url(self) -> str | None:
        found = os.environ.get("CELERY_BROKER_READ_URL") or self["broker_read_url"]
        return found or self.broker_url

    @property
    def broker_write_url(self) -> str | None:
        found = os.environ.get("CELERY_BROKER_WRITE_URL") or self["broker_write_url"]
        return found or self.broker_url

    @property
    def result_backend(self) -> Any:
        """The environment variable ``CELERY_RESULT_BACKEND`` goes first."""
        return os.environ.get("CELERY_RESULT_BACKEND") or self["result_backend"]

    @property
    def task_default_exchange(self) -> str:
        return str(self["task_default_exchange"] or self["task_default_queue"])

    @property
    def task_default_routing_key(self) -> str:
        return str(self["task_default_routing_key"] or self["task_default_queue"])

    @property
    def timezone(self) -> Any:
        """The name of a time zone, or one; Django's ``TIME_ZONE`` where there is no other."""
        return self.first("timezone", "TIME_ZONE")

    @property
    def changes(self) -> dict[str, Any]:
        """What was set here, or given to ``Celery(...)``: a copy. To set it replaces all that.

        It has ``deprecated_settings`` as well, which pytest-celery takes out.
        """
        return {**self._changes, DEPRECATED: set(self.deprecated_settings)}

    @changes.setter
    def changes(self, changes: Mapping[str, Any]) -> None:
        self.clear()
        self.update({name: changes[name] for name in changes if name != DEPRECATED})

    # -- the source --------------------------------------------------------------------------

    def load(self) -> None:
        """Read the configuration source, unless that was done. May raise what importing it does."""
        if self._load is None or self._loading:
            return
        own = vars(self)
        own["_loading"] = True
        try:
            own["_source"] = self._load()
            own["_load"] = None
        finally:
            own["_loading"] = False
        self.touch()
        self._warn_of_unknown([*self._changes, *(self._source.names() if self._source else ())])
        self._loaded()

    @property
    def is_loaded(self) -> bool:
        return self._load is None

    @property
    def is_live(self) -> bool:
        """Whether a setting may change without a new ``revision``: there is a source, which is
        read when asked, or there will be one."""
        return self._source is not None or self._load is not None

    def set_source(self, load: Callable[[], Source | None], namespace: str | None = None) -> None:
        """Take settings from another source from now on; what was set here stays."""
        own = vars(self)
        own["_load"] = load
        own["_source"] = None
        if namespace is not None:
            own["namespace"] = namespace
        self.touch()

    def set_namespace(self, namespace: str | None) -> None:
        """Understand names with this prefix from now on."""
        vars(self)["namespace"] = namespace
        if self._source is not None:
            vars(self)["_source"] = Source(self._source.source, namespace)
        self.touch()

    def add_defaults(self, d: Mapping[str, Any]) -> None:
        """Defaults of an extension; they go before Celery's own."""
        self._extra_defaults.insert(0, {self._name(name): d[name] for name in d})
        self.touch()

    def _warn_of_unknown(self, names: Iterable[str]) -> None:
        """Name settings that look misspelled. Others may belong to an extension: kept silently."""
        for name in names:
            if name in SETTINGS or name in WITHOUT_DEFAULT or not name.islower():
                continue
            if name in self._told:
                continue
            self._told.add(name)
            near = difflib.get_close_matches(name, SETTINGS, n=1, cutoff=0.85)
            if near:
                logger.warning(
                    "unknown setting %r is kept but has no effect; did you mean %r?", name, near[0]
                )

    # -- looking things up -------------------------------------------------------------------

    def value_set_for(self, key: str) -> bool:
        """Whether somebody wrote this setting: it is not just the default."""
        name = self._name(key)
        if name in self._changes:
            return True
        self.load()
        return self._source is not None and self._source.get(name, _MISSING) is not _MISSING

    def without_defaults(self) -> dict[str, Any]:
        """Only what somebody wrote, by new names."""
        self.load()
        written = dict.fromkeys(self._source.names()) if self._source is not None else {}
        return {name: self[name] for name in {**written, **self._changes}}

    def first(self, *names: str) -> Any:
        """The value of the first of these settings that has one."""
        return next((value for value in map(self.get, names) if value is not None), None)

    def find_option(self, name: str, namespace: str = "") -> searchresult:
        """A setting by a part of its name; see `celery.app.defaults.find`."""
        return find(name, namespace)

    def find_value_for_key(self, name: str, namespace: str = "celery") -> Any:
        """The value of a setting found by a part of its name."""
        found = self.find_option(name, namespace)
        return self.get_by_parts(*(part for part in (found.namespace, found.key) if part))

    def get_by_parts(self, *parts: str) -> Any:
        """``get_by_parts("task", "always", "eager")``."""
        return self["_".join(part for part in parts if part)]

    def finalize(self) -> None:
        """Accepted for Celery's sake."""

    def table(self, with_defaults: bool = False, censored: bool = True) -> dict[str, Any]:
        """The settings as a dict; passwords and keys are hidden."""
        if with_defaults:
            found = dict(self)
        else:
            given = {name for defaults in self._extra_defaults for name in defaults}
            found = {**{name: self[name] for name in given}, **self.without_defaults()}
        found = {name: value for name, value in found.items() if not name.startswith("_")}
        return filter_hidden_settings(found) if censored else found

    def humanize(self, with_defaults: bool = False, censored: bool = True) -> str:
        """The settings as text, one a line."""
        table = self.table(with_defaults, censored)
        return "\n".join(f"{name}: {value}" for name, value in table.items())


_MISSING = object()
# Of the names in `Settings.changes` the one that is no setting.
DEPRECATED = "deprecated_settings"


def filter_hidden_settings(conf: Mapping[str, Any]) -> dict[str, Any]:
    """A copy in which values that look secret are masked."""

    def masked(name: str, value: Any) -> Any:
        if isinstance(value, Mapping):
            return filter_hidden_settings(value)
        upper = name.upper()
        if any(word in upper for word in HIDDEN):
            return MASK
        if ("BROKER" in upper and upper.endswith("URL")) or upper.endswith(
            ("RESULT_BACKEND", "CACHE_BACKEND")
        ):
            return sanitize_url(value)
        return value

    return {name: masked(str(name), value) for name, value in conf.items()}


def _old_key_to_new(key: str) -> str | None:
    """The new name of a setting, from an old one."""
    return NEW_NAMES.get(key)


def _new_key_to_old(key: str) -> str | None:
    """The old name of a setting, from the new one."""
    setting = SETTINGS.get(key)
    return None if setting is None else setting.old_name


def bugreport(app: Any) -> str:
    """Versions and settings, for a report of a bug."""
    report: str = symbol_by_name("celery.app.report:bugreport")(app)
    return report


def find_app(app: str, *args: Any, **kwargs: Any) -> Any:
    """The app that the text after ``-A`` means: see `celery.app.lookup.find_app`."""
    return symbol_by_name("celery.app.lookup:find_app")(app, *args, **kwargs)


def appstr(app: Any) -> str:
    """``main at 0x7f…``, as in the ``repr`` of apps and tasks."""
    return f"{app.main or '__main__'} at {id(app):#x}"
