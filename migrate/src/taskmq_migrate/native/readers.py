"""Where settings of an app are read, and what of the engine's says the same."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from taskmq_migrate.names import literal_text
from taskmq_migrate.problems import Unclear
from taskmq_migrate.pythonfile import PythonFile
from taskmq_migrate.settingnames import NEW_NAMES, OLD_TO_NEW

from .settings import POOLS, RENAMED, WHY_NOT

__all__ = ["Reading", "is_made_here", "reading_of"]

NO_SETTING = "the engine has no such setting"
NOT_LATER = "settings are arguments of Config: App(Config(…)); none is changed later"
EAGERLY = "with taskmq.testing.eager(app) jobs run at once; settings are not changed later"
COLLECTIONS = ("builtins.list", "builtins.set", "builtins.sorted", "builtins.tuple")
METHODS = frozenset(
    {"add_defaults", "changes", "clear", "copy", "defaults", "finalize", "find_option", "humanize"}
    | {"items", "keys", "pop", "popitem", "prefix", "setdefault", "table", "update", "values"}
    | {"value_set_for", "without_defaults", "deprecated_settings", "get_by_parts", "first"}
)
CHANGING = frozenset({"clear", "pop", "popitem", "setdefault", "update", "add_defaults"})


@dataclass(frozen=True)
class Reading:
    """One use of a setting: what is replaced, and what stands before and behind the app then."""

    whole: cst.BaseExpression
    before: str
    after: str
    compared: cst.SimpleString | None = None
    """The name of a pool that it is compared with."""
    guessed: bool = False


def reading_of(file: PythonFile, conf: cst.Attribute) -> Reading | None:
    """What reads a setting of ``app.conf``; None if nothing does. Raises `Unclear`."""
    whole, name = _setting(file, conf)
    if whole is None:
        return None
    name = OLD_TO_NEW.get(name, name)
    if _is_changed(file, whole):
        if is_made_here(file, conf.value):
            return None  # TMQ100 passes it to Config, or says why not
        raise Unclear(EAGERLY if name == "task_always_eager" else NOT_LATER)
    if name == "beat_schedule":
        return _schedules(file, whole)
    if name == "worker_pool":
        return Reading(whole, "", ".config.pool", _compared(file, whole))
    if name == "task_ignore_result":
        return Reading(whole, "(not ", ".config.store_results)")
    if name in RENAMED:
        return Reading(whole, "", f".config.{RENAMED[name]}", guessed=name == "result_expires")
    if name in NEW_NAMES:
        raise Unclear(f"{name}: {WHY_NOT.get(name, NO_SETTING)}")
    raise Unclear(f"{name}: a Config has no settings of a program's own")


def is_made_here(file: PythonFile, app: cst.BaseExpression) -> bool:
    """Whether an app is made in this file: TMQ100 looks at what is done with its settings then."""
    value, _ = file.bound_to(app)
    return isinstance(value, cst.Call)


def _setting(file: PythonFile, conf: cst.Attribute) -> tuple[cst.BaseExpression | None, str]:
    """The expression that is one setting, and the name of that."""
    around = file.parent(conf)
    if isinstance(around, cst.Attribute) and around.value is conf:
        name = around.attr.value
        call = file.parent(around)
        if not isinstance(call, cst.Call) or call.func is not around:
            return around, name
        if name == "get" and call.args:
            return call, literal_text(call.args[0].value) or "get"
        if name in METHODS:
            return (call, name) if name in CHANGING else (None, "")
        return around, name
    if isinstance(around, cst.Subscript) and around.value is conf and len(around.slice) == 1:
        index = around.slice[0].slice
        text = literal_text(index.value) if isinstance(index, cst.Index) else None
        return (around, text) if text else (None, "")
    return None, ""


def _is_changed(file: PythonFile, whole: cst.BaseExpression) -> bool:
    """Whether a setting is set, or taken away."""
    if isinstance(whole, cst.Call):
        method = whole.func
        return isinstance(method, cst.Attribute) and method.attr.value in CHANGING
    around: cst.CSTNode = whole
    parent = file.parent(around)
    while isinstance(parent, cst.Subscript) and parent.value is around:  # beat_schedule["x"] = …
        around, parent = parent, file.parent(parent)
    if isinstance(parent, cst.Attribute) and parent.attr.value in CHANGING:
        return isinstance(file.parent(parent), cst.Call)
    return isinstance(parent, cst.AssignTarget | cst.AugAssign | cst.AnnAssign | cst.Del) and not (
        isinstance(parent, cst.AugAssign | cst.AnnAssign) and parent.value is around
    )


def _compared(file: PythonFile, whole: cst.BaseExpression) -> cst.SimpleString:
    """The name of a pool, which is another one in the engine."""
    target = file.parent(whole)
    if isinstance(target, cst.Comparison) and len(target.comparisons) == 1:
        other = target.comparisons[0]
        if (
            isinstance(other.operator, cst.Equal | cst.NotEqual)
            and isinstance(other.comparator, cst.SimpleString)
            and literal_text(other.comparator) in POOLS
        ):
            return other.comparator
    raise Unclear("worker_pool: pools are processes, threads, asyncio and solo")


def _schedules(file: PythonFile, whole: cst.BaseExpression) -> Reading:
    """The names of the entries; what they hold is another thing in the engine."""
    around = file.parent(whole)
    names = ("[each.name for each in ", ".schedules]")
    call = file.parent(around) if isinstance(around, cst.Arg) else None
    collected = isinstance(call, cst.Call) and file.is_(call.func, *COLLECTIONS)
    looked_for = isinstance(around, cst.ComparisonTarget) and isinstance(
        around.operator, cst.In | cst.NotIn
    )
    if collected or looked_for:
        return Reading(whole, *names)
    raise Unclear("beat_schedule: app.schedules is a list of schedules, which have a name")
