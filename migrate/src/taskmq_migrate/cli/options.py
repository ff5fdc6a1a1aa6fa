"""The options that check, diff, apply and doctor share, and the run they ask for."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from taskmq_migrate.configuration import load
from taskmq_migrate.model import Target
from taskmq_migrate.problems import Refused
from taskmq_migrate.project import Run
from taskmq_migrate.registry import select

__all__ = ["Asked", "common"]

F = TypeVar("F", bound=Callable[..., Any])
TARGETS = [each.value for each in Target]


@dataclass(frozen=True)
class Asked:
    """The options of one command, as the user gave them."""

    paths: tuple[str, ...]
    to: str | None
    only: tuple[str, ...]
    skip: tuple[str, ...]
    exclude: tuple[str, ...]
    unsafe: bool | None
    strict: bool | None
    jobs: int | None
    clean_markers: bool = False
    doctor: bool = False

    def plan(self) -> tuple[Run, bool]:
        """The run, and whether markers that remain are an error; raises `Refused`."""
        root = Path.cwd()
        settings = load(root)
        to = self.to or settings.to
        if not to and not self.clean_markers:
            raise Refused("say where to: --to shim (keep Celery's API) or --to native")
        rules = select(
            Target(to or Target.SHIM.value),
            self.only or settings.only,
            self.skip or settings.skip,
            self.doctor,
        )
        plan = Run(
            root=root,
            paths=tuple(Path(each) for each in self.paths) or (root,),
            rules=rules,
            unsafe=settings.unsafe if self.unsafe is None else self.unsafe,
            exclude=(*settings.exclude, *self.exclude),
            jobs=self.jobs or settings.jobs or _cores(),
            clean_markers=self.clean_markers,
        )
        return plan, settings.strict if self.strict is None else self.strict


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def common(command: F) -> F:
    """Decorates a command with the options of a run."""
    decorators = [
        click.argument("paths", nargs=-1, type=click.Path()),
        click.option("--to", type=click.Choice(TARGETS), help="Celery's API or taskmq's."),
        click.option("--only", multiple=True, metavar="RULE", help="Only this rule; repeatable."),
        click.option("--skip", multiple=True, metavar="RULE", help="Not this rule; repeatable."),
        click.option("--exclude", multiple=True, metavar="GLOB", help="Not these files."),
        click.option("--unsafe/--no-unsafe", default=None, help="Also what may change behaviour."),
        click.option("--strict/--no-strict", default=None, help="Exit 3 if markers remain."),
        click.option("--jobs", type=click.IntRange(1), help="Processes (as many as cores)."),
        click.option("--json", "as_json", is_flag=True, help="The report as JSON."),
        click.option("--sarif", "as_sarif", is_flag=True, help="The report as SARIF 2.1.0."),
        click.option("--html", "page", type=click.Path(dir_okay=False), help="A page to look at."),
        click.option("-v", "--verbose", is_flag=True, help="List converted sites too."),
    ]
    for each in reversed(decorators):
        command = each(command)
    return command
