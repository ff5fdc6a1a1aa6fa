"""``app.conf.beat_schedule``: what runs at which times."""

from __future__ import annotations

import json
from collections.abc import Iterator

import libcst as cst

from taskmq_migrate.arguments import Part, comma_separated, is_literal
from taskmq_migrate.model import Example, NewImport, Page, Safety, Site, Target
from taskmq_migrate.names import literal_text
from taskmq_migrate.native.entries import Fields, changed_later, entries_of
from taskmq_migrate.native.schedules import arguments_of, options_of, rule_of, zone_of
from taskmq_migrate.native.settings import is_loaded
from taskmq_migrate.problems import Unclear
from taskmq_migrate.pythonfile import PythonFile
from taskmq_migrate.rule import PythonRule
from taskmq_migrate.settingsites import settings_in

__all__ = ["RULE"]

NAMES = frozenset({"beat_schedule", "CELERYBEAT_SCHEDULE", "CELERY_BEAT_SCHEDULE"})
FIELDS = frozenset({"task", "schedule", "args", "kwargs", "options", "relative"})


class BeatSchedule(PythonRule):
    id = "TMQ160"
    title = "beat_schedule becomes app.schedule(...)"
    targets = frozenset({Target.NATIVE})
    words = ("eat_schedule", "BEAT_SCHEDULE", "config_from_object")
    page = Page(
        why="The engine's schedules are values: cron lines and intervals, with the task they run. "
        "Any worker runs them, one at a time, and each run becomes one job.",
        risk="Intervals are counted from fixed instants, not from the start of a process, and a "
        "run that was missed "
        "is made up for once (misfire=). Where the time zone of a crontab cannot be seen in the "
        "file, the conversion waits for --unsafe and takes UTC. Entries in a module of settings "
        "become a list of schedules, with --unsafe, which TMQ100 passes to app.schedule(...).",
        examples=(
            Example(
                "app.py",
                before="from celery import Celery\nfrom celery.schedules import crontab\n\n"
                'app = Celery("shop")\n'
                "app.conf.beat_schedule = {\n"
                '    "report": {\n'
                '        "task": "shop.report",\n'
                '        "schedule": crontab(minute=0, hour=7, day_of_week="mon-fri"),\n'
                '        "args": ("daily",),\n'
                "    },\n"
                '    "sweep": {"task": "shop.sweep", "schedule": 30.0},\n'
                "}\n",
                after="from celery import Celery\nfrom taskmq.schedule import cron, every\n\n"
                'app = Celery("shop")\n'
                "app.schedule(\n"
                '    cron("shop.report", "0 7 * * mon-fri", name="report", args=("daily",)),\n'
                '    every("shop.sweep", seconds=30.0, name="sweep"),\n'
                ")\n",
            ),
            Example(
                "shop/settings.py",
                before="CELERY_BEAT_SCHEDULE = {\n"
                '    "sweep": {"task": "shop.sweep", "schedule": 30.0},\n}\n',
                after="from taskmq.schedule import every\n\nCELERY_BEAT_SCHEDULE = [\n"
                '    every("shop.sweep", seconds=30.0, name="sweep"),\n]\n',
                others={
                    "shop/celery.py": "from celery import Celery\n\n"
                    'app = Celery("shop")\n'
                    'app.config_from_object("django.conf:settings", namespace="CELERY")\n'
                },
            ),
            Example(
                "late.py",
                before="from celery import Celery\n\n"
                'app = Celery("shop")\napp.conf.beat_schedule = entries()\n',
                after="from celery import Celery\n\n"
                'app = Celery("shop")\n'
                "# TODO(taskmq-migrate TMQ160): the entries are not written out here: pass "
                "schedules to app.schedule(...)\n"
                "app.conf.beat_schedule = entries()\n",
            ),
        ),
    )

    def sites(self, file: PythonFile) -> Iterator[Site]:
        for assign in file.nodes(cst.Assign):
            target = assign.targets[0].target
            name = (
                target.attr.value
                if isinstance(target, cst.Attribute)
                else target.value
                if isinstance(target, cst.Name)
                else ""
            )
            if name not in NAMES or len(assign.targets) > 1 or _is_done(file, assign.value):
                continue
            yield self._site(file, assign, target)

    def _site(self, file: PythonFile, assign: cst.Assign, target: cst.BaseExpression) -> Site:
        loaded = isinstance(target, cst.Name) and is_loaded(file)
        entries = entries_of(assign.value)
        if entries is None:
            return file.mark_at(
                assign,
                "the entries are not written out here: pass schedules to app.schedule(...)",
            )
        conf = target.value if isinstance(target, cst.Attribute) else None
        changes = changed_later(file, target, entries)
        if loaded and changes is None:
            return file.mark_at(
                assign, "the entries are changed later: pass schedules to app.schedule(...)"
            )
        if not loaded and (not isinstance(conf, cst.Attribute) or not file.is_conf(conf)):
            return file.mark_at(
                assign, "schedules belong to the app: app.schedule(cron(...), every(...))"
            )
        place: cst.CSTNode = assign
        parts: list[Part] = ["[", file.newline]
        if isinstance(conf, cst.Attribute) and not loaded:
            parts = [file.whole(conf.value), ".schedule(", file.newline]
        else:
            place = assign.value
        imports: list[NewImport] = []
        released: list[cst.CSTNode] = []
        zone = _zone_beside(file) if loaded else zone_of(file)
        zoned = False
        try:
            for name, fields in entries.items():
                shown, wanted, gone, has_zone = self._entry(file, assign, name, fields, zone)
                parts += ["    ", *shown, ",", file.newline]
                imports += wanted
                released += gone
                zoned = zoned or has_zone
        except Unclear as problem:
            return file.mark_at(assign, f"{problem}")
        indent = file.text[file.line_start(file.span(assign).start) : file.span(assign).start]
        if indent:
            parts = [f"{each}{indent}" if each == file.newline else each for each in parts]
        return file.convert_at(
            assign,
            "schedules of the app",
            file.replace(file.span(place), *parts, "]" if loaded else ")"),
            *(changes or ()),
            imports=tuple(imports),
            released=tuple(released),
            safety=Safety.UNSAFE if loaded or (zoned and zone is None) else None,
        )

    def _entry(
        self,
        file: PythonFile,
        at: cst.CSTNode,
        name: str,
        fields: Fields | None,
        zone: str | None,
    ) -> tuple[list[Part], tuple[NewImport, ...], tuple[cst.CSTNode, ...], bool]:
        if fields is None or not {"task", "schedule"} <= fields.keys():
            raise Unclear(f"{name!r} is not written out here")
        if not fields.keys() <= FIELDS:
            raise Unclear(f"{name!r} has fields that a schedule does not have")
        if "relative" in fields and not is_literal(fields["relative"], "False"):
            raise Unclear(f"{name!r}: relative has no counterpart")
        rule = rule_of(file, fields["schedule"])
        function, imports = file.import_as(f"taskmq.schedule.{rule.function}", at)
        task: Part = file.whole(fields["task"])
        if literal_text(fields["task"]) is None and not _is_name_of_task(fields["task"]):
            raise Unclear(f"{name!r}: a schedule wants the name of its task")
        arguments: list[tuple[Part, ...]] = [(task,), rule.when]
        if rule.has_zone and zone not in {None, "UTC"}:
            arguments.append((f'tz="{zone}"',))
        arguments.append((f"name={json.dumps(name)}",))
        args = arguments_of(file, fields.get("args"))
        if args:
            arguments.append(("args=", *args))
        if "kwargs" in fields:
            arguments.append(("kwargs=", file.whole(fields["kwargs"])))
        if "options" in fields:
            options = options_of(file, fields["options"])
            if options is None:
                raise Unclear(f"{name!r} has options that cannot be seen or have no counterpart")
            arguments.append(("options=", *options))
        shown: list[Part] = [f"{function}(", *comma_separated(arguments), ")"]
        return shown, imports, rule.released, rule.has_zone


def _is_done(file: PythonFile, value: cst.BaseExpression) -> bool:
    """Whether these are schedules of the engine already."""
    return isinstance(value, cst.List) and any(
        isinstance(each.value, cst.Call)
        and file.is_(each.value.func, "taskmq.schedule.cron", "taskmq.schedule.every")
        for each in value.elements
    )


def _zone_beside(file: PythonFile) -> str | None:
    """The time zone that the same module of settings names, if it does."""
    for _, name, value in settings_in(file):
        if name == "timezone":
            return literal_text(value)
    return None


def _is_name_of_task(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Attribute) and node.attr.value == "name"


RULE = BeatSchedule()
