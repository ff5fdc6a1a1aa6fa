"""How the settings of a project's apps are written down, and which names they should have."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from .facts import ConfigSource, Facts, ModuleFacts
from .settingnames import OLD_TO_NEW

__all__ = ["Renames", "Style", "django_style", "is_django_settings", "renames", "style_of"]

DEFAULT_MODULE = "celeryconfig"


@dataclass(frozen=True)
class Style:
    """How names are spelled: with a prefix in capitals, or small without one."""

    namespace: str = ""
    safe: bool = True
    adds_namespace: bool = False  # where the call that loads them has none yet

    def spelled(self, old: str) -> str | None:
        """The present name of an old setting; None if it has none, or has that name already."""
        new = OLD_TO_NEW.get(old)
        if new is None:
            return None
        if not self.namespace:
            return new
        if not old.startswith(("CELERY", "BROKER_")):
            return None  # such as S3_BUCKET: it may as well be somebody else's
        prefixed = f"{self.namespace}_{new}"
        prefixed = prefixed.upper() if self.namespace.isupper() else prefixed
        return None if prefixed == old else prefixed


@dataclass
class Renames:
    """Full names of settings, what their last part becomes, and which have two names."""

    names: dict[str, str] = field(default_factory=dict)
    unsafe: set[str] = field(default_factory=set)
    doubled: dict[str, str] = field(default_factory=dict)


def django_style(facts: Facts) -> Style | None:
    """How Django's settings spell those of Celery; None without Django, or if apps disagree."""
    found = {each.namespace for each in facts.configuration if each.how == "django"}
    if len(found) != 1:
        return None
    (namespace,) = found
    if namespace is None:
        return None
    if namespace:
        return Style(namespace)
    return Style("CELERY", safe=False, adds_namespace=True)


@lru_cache(4)
def renames(facts: Facts) -> Renames:
    """Every old name that is set in a configuration module or class of the project."""
    out = Renames()
    django = django_style(facts)
    if django is not None:
        for module in facts.modules.values():
            if is_django_settings(facts, module):
                _module(out, module, django)
    for source in facts.configuration:
        if source.how in ("module", "object") and source.namespace is not None:
            _source(out, facts, source)
    if not any(each.how != "unknown" for each in facts.configuration):
        for module in facts.modules.values():
            if module.module.rpartition(".")[2] == DEFAULT_MODULE:
                _module(out, module, Style())
    return out


def is_django_settings(facts: Facts, module: ModuleFacts) -> bool:
    """Whether a file is one of Django's settings, by its name or because something says so."""
    if module.path in facts.django_settings:
        return True
    return any("settings" in each for each in module.path.removesuffix(".py").split("/")[-2:])


def style_of(facts: Facts, module: ModuleFacts) -> Style | None:
    """How a module of the project spells settings of Celery; None if it is none of settings."""
    if is_django_settings(facts, module):
        return django_style(facts)
    for source in facts.configuration:
        reference = source.reference.replace(":", ".")
        if source.how == "module" and facts.module(reference, source.path) is module:
            return Style(source.namespace or "")
    if module.module.rpartition(".")[2] == DEFAULT_MODULE:
        return Style()
    return None


def _source(out: Renames, facts: Facts, source: ConfigSource) -> None:
    reference = source.reference.replace(":", ".")
    name = facts.canonical(reference, source.path)
    module = facts.module(reference, source.path) or facts.module(name, source.path)
    style = Style(source.namespace or "")
    if module is not None:
        if module.path in facts.django_settings:
            return  # Django shows capitals only: these are its names
        _module(out, module, style)
        return
    owner, _, last = name.rpartition(".")
    holder = facts.module(owner, source.path)
    if holder is not None and last in holder.classes:
        _class(out, facts, holder, last, style, set())


def _module(out: Renames, module: ModuleFacts, style: Style) -> None:
    defined = module.names - module.bindings.keys() - module.decorated.keys()
    dedicated = style.namespace or not any(_is_foreign(each) for each in defined)
    safe = style.safe and bool(dedicated)
    for old in sorted(defined):
        _rename(out, f"{module.module}.{old}", old, module.names, style, safe=safe)


def _class(
    out: Renames, facts: Facts, module: ModuleFacts, name: str, style: Style, seen: set[str]
) -> None:
    """A class of settings, the classes of the project that it derives from, and their heirs."""
    if f"{module.module}.{name}" in seen:
        return
    seen.add(f"{module.module}.{name}")
    attributes = frozenset(module.attributes.get(name, ()))
    safe = style.safe and not any(_is_foreign(each) for each in attributes)
    for old in sorted(attributes):
        _rename(out, f"{module.module}.{name}.{old}", old, attributes, style, safe=safe)
    for base in module.classes.get(name, ()):
        owner, _, last = facts.canonical(base, module.path).rpartition(".")
        holder = facts.module(owner, module.path)
        if holder is not None and last in holder.classes:
            _class(out, facts, holder, last, style, seen)
    full = f"{module.module}.{name}"
    for other in facts.modules.values():
        for derived, bases in other.classes.items():
            if derived != name and any(facts.canonical(each, other.path) == full for each in bases):
                _class(out, facts, other, derived, style, seen)


def _rename(
    out: Renames, full: str, old: str, names: frozenset[str], style: Style, *, safe: bool
) -> None:
    new = style.spelled(old)
    if new is None:
        return
    if new in names:
        out.doubled[full] = new
        return
    out.names[full] = new
    if not safe:
        out.unsafe.add(full)


def _is_foreign(name: str) -> bool:
    """Whether a name is somebody else's setting."""
    return name.isupper() and name not in OLD_TO_NEW and not name.startswith("_")
