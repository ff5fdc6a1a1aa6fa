"""Every rule: one for each module of `taskmq_migrate.rules`, in the order of their ids."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Iterable
from functools import cache

from . import rules
from .model import Target
from .problems import Refused
from .rule import AnyRule

__all__ = ["all_rules", "find_rule", "select"]


@cache
def all_rules() -> tuple[AnyRule, ...]:
    """The rules, by id. Each module is named after the id of its ``RULE``."""
    names = sorted(each.name for each in pkgutil.iter_modules(rules.__path__))
    return tuple(
        importlib.import_module(f"{rules.__name__}.{name}").RULE
        for name in names
        if name.startswith("tmq")
    )


def find_rule(wanted: str) -> AnyRule:
    """The rule of an id; raises `Refused` with the nearest id."""
    by_id = {each.id: each for each in all_rules()}
    found = by_id.get(wanted.upper())
    if found is None:
        digits = wanted.upper().replace("O", "0")  # the letter, in place of a nought
        near = difflib.get_close_matches(digits, by_id, 1, 0.4)
        hint = f"did you mean {near[0]}?" if near else "`taskmq-migrate rules` lists them"
        raise Refused(f"there is no rule {wanted}: {hint}")
    return found


def select(
    target: Target, only: Iterable[str] = (), skip: Iterable[str] = (), doctor: bool = False
) -> tuple[AnyRule, ...]:
    """The rules of a run; raises `Refused` for an id that does not exist."""
    wanted = {find_rule(each).id for each in only}
    unwanted = {find_rule(each).id for each in skip}
    return tuple(
        each
        for each in all_rules()
        if target in each.targets
        and each.doctor == doctor
        and (not wanted or each.id in wanted)
        and each.id not in unwanted
    )
