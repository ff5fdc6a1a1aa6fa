"""``Celery(…)`` with its settings: ``App(Config(…))``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import libcst as cst

from taskmq_migrate.arguments import Arguments, Parts, comma_separated, dict_items, is_literal
from taskmq_migrate.model import Edit, Example, NewImport, Page, Safety, Site, Target
from taskmq_migrate.names import dotted, literal_text
from taskmq_migrate.native.readers import reading_of
from taskmq_migrate.native.settings import DJANGO, config_by_name, config_of, names_of
from taskmq_migrate.native.taskclasses import base_of_all
from taskmq_migrate.problems import Unclear
from taskmq_migrate.pythonfile import PythonFile
from taskmq_migrate.rule import PythonRule

__all__ = ["RULE"]

PARAMETERS = ("main", "loader", "backend", "amqp", "events", "log", "control", "set_as_current")
INCLUDE = ("include", "imports")
NOT_READ = "settings are arguments of Config: App(Config(transport=…)); what"


@dataclass
class _App:
    """What this file says of one app: its settings, where they stand, and what is left over."""

    config: dict[str, Parts] = field(default_factory=dict)
    include: list[Parts] = field(default_factory=list)
    edits: list[Edit] = field(default_factory=list)
    imports: list[NewImport] = field(default_factory=list)
    block: cst.CSTNode | None = None
    """What the statement that makes it stands in, if that is a statement of its own."""
    base: Parts = ()
    schedules: str = ""
    """What is to be passed to its schedule(), if it has no statement for that."""
    guessed: bool = False
    """Whether something was taken for what it usually is, without seeing it."""


class MakeApp(PythonRule):
    id = "TMQ100"
    title = "Celery(...) and its settings become App(Config(...))"
    targets = frozenset({Target.NATIVE})
    words = ("elery", "CELERY_", "broker_url")
    page = Page(
        why="An app of the engine is made with its settings; nothing is assigned to it later. "
        "Settings that say what the engine does anyway go: results are in the store, arguments are "
        "JSON, acknowledgement is late.",
        risk="The broker has to be one of the engine's stores; RabbitMQ needs a store beside it. "
        "Settings of Django, or of a module of the project, that config_from_object loads are "
        "passed by their names, with --unsafe: their values are not seen. Otherwise that line is "
        "marked. autodiscover_tasks() without names becomes the modules with tasks that were found "
        "in this repository, with --unsafe: those of installed packages are to be added. Django is "
        "set up before they are imported; its connections to the database are not closed between "
        "jobs (CONN_MAX_AGE does nothing there): close_old_connections() in before_start() of the "
        "app's base= does that.",
        examples=(
            Example(
                "app.py",
                before="from celery import Celery\n\n"
                'app = Celery("shop", broker="redis://db:6379/0", backend="redis://db:6379/1", '
                'include=["shop.tasks"])\n'
                'app.conf.update(task_serializer="json", result_expires=3600, '
                'timezone="Europe/Paris")\n'
                "app.conf.task_acks_late = True\n",
                after="from taskmq import App, Config\n\n"
                'app = App(Config(transport="redis://db:6379/0", result_ttl=3600, '
                'timezone="Europe/Paris"), include=["shop.tasks"])\n',
            ),
            Example(
                "late.py",
                before="from celery import Celery\n\n"
                'app = Celery("shop")\n'
                'app.config_from_object(load("shop"))\n',
                after="from celery import Celery\n\n"
                "# TODO(taskmq-migrate TMQ100): settings are arguments of Config: "
                "App(Config(transport=…)); what config_from_object loads is not read\n"
                'app = Celery("shop")\n'
                'app.config_from_object(load("shop"))\n',
            ),
            Example(
                "shop/celery.py",
                before="import os\n\nfrom celery import Celery\n\n"
                'os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")\n'
                'app = Celery("shop")\n'
                'app.config_from_object("django.conf:settings", namespace="CELERY")\n'
                "app.autodiscover_tasks()\n",
                after="import os\n\nimport django\nfrom django.conf import settings\n"
                "from taskmq import App, Config\n\n"
                'os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")\n'
                "app = App(Config(transport=settings.CELERY_BROKER_URL, "
                "timezone=settings.CELERY_TIMEZONE), "
                'include=["orders.tasks"], setup=django.setup)\n',
                others={
                    "shop/__init__.py": "",
                    "shop/settings.py": 'CELERY_BROKER_URL = "redis://db:6379/0"\n'
                    'CELERY_TASK_SERIALIZER = "json"\nCELERY_TIMEZONE = "UTC"\n',
                    "orders/tasks.py": "from celery import shared_task\n\n\n"
                    "@shared_task\ndef pack(): ...\n",
                },
            ),
        ),
    )

    def sites(self, file: PythonFile) -> Iterator[Site]:
        for call in file.nodes(cst.Call):
            if file.makes_app(call.func) and any(
                each.rpartition(".")[2] == "Celery" for each in file.names(call.func)
            ):
                yield self._site(file, call)

    def _site(self, file: PythonFile, call: cst.Call) -> Site:
        app = _App()
        try:
            self._constructor(file, call, app)
            self._settings(file, call, app)
        except Unclear as problem:
            return file.mark_at(call, str(problem))
        made, imports = file.import_as("taskmq.App", call)
        config, more = file.import_as("taskmq.Config", call)
        arguments: list[Parts] = []
        if app.config:
            values = [(f"{name}=", *value) for name, value in app.config.items()]
            arguments.append((f"{config}(", *comma_separated(values), ")"))
        if app.include:
            arguments.append(("include=", *self._joined(app.include)))
        if _is_django(file):
            arguments.append(("setup=django.setup",))
            app.imports.append(NewImport("django"))
        if app.base:
            arguments.append(("base=", *app.base))
        if app.schedules:
            app.edits.append(self._scheduling(file, call, app.schedules))
        edit = file.replace(file.span(call), f"{made}(", *comma_separated(arguments), ")")
        return file.convert_at(
            call,
            "an app of the engine",
            edit,
            *app.edits,
            imports=(*imports, *(more if app.config else ()), *app.imports),
            released=(call.func,),
            safety=Safety.UNSAFE if app.guessed else None,
        )

    def _joined(self, groups: list[Parts]) -> Parts:
        if len(groups) == 1:
            return groups[0]
        starred = [("*", *each) for each in groups]
        return ("[", *comma_separated(starred), "]")

    def _scheduling(self, file: PythonFile, call: cst.Call, schedules: str) -> Edit:
        """A statement behind the one that makes the app."""
        line = file.statement(call)
        assign = file.parent(call)
        if not isinstance(assign, cst.Assign) or file.parent(assign) is not line:
            raise Unclear("beat_schedule: pass schedules to app.schedule(...)")
        span = file.span(line)
        gap = f"{file.newline}{file.text[file.line_start(span.start) : span.start]}"
        name = file.code(assign.targets[0].target)
        return file.insert(span.end, f"{gap}{name}.schedule(*{schedules})")

    def _constructor(self, file: PythonFile, call: cst.Call, app: _App) -> None:
        given = Arguments.of(call).named(*PARAMETERS)
        if given is None:
            raise Unclear("settings are arguments of Config; these are hidden behind * or **")
        for name in ("main", "set_as_current", "backend", "result_backend", "autofinalize"):
            given.pop(name, None)
        for name in INCLUDE:
            value = given.pop(name, None)
            if value is not None and not is_literal(value, "None"):
                app.include.append((file.whole(value),))
        if "broker" in given:
            given["broker_url"] = given.pop("broker")
        if "config_source" in given:
            app.schedules = self._loaded(file, given.pop("config_source"), app)
        if "task_cls" in given:
            app.base = base_of_all(file, given.pop("task_cls"))
        unknown = given.keys() & {*PARAMETERS, "tasks", "fixups"}
        if unknown:
            raise Unclear(f"{min(unknown)}: App has no such argument")
        self._take(file, given, app)

    def _take(self, file: PythonFile, given: dict[str, cst.BaseExpression], app: _App) -> None:
        for name, value in given.items():
            if name in INCLUDE:
                app.include.append((file.whole(value),))
            else:
                app.config.update(config_of(file, name.lower(), value))

    def _settings(self, file: PythonFile, call: cst.Call, app: _App) -> None:
        """Every use of the new app in this file that would not work on the engine's."""
        assign = file.parent(call)
        if not isinstance(assign, cst.Assign) or not isinstance(assign.targets[0].target, cst.Name):
            return
        name = assign.targets[0].target.value
        scope = file.resolver.scope(call)
        line = file.parent(assign)
        app.block = file.parent(line) if line is not None else None
        for node in file.nodes(cst.Attribute):
            if not isinstance(node.value, cst.Name) or node.value.value != name:
                continue
            if file.resolver.scope(node) is not scope:
                continue
            if node.attr.value == "conf":
                self._conf(file, node, app)
            elif node.attr.value == "config_from_object":
                self._from_object(file, node, app)
            elif node.attr.value == "config_from_envvar":
                raise Unclear(f"{NOT_READ} config_from_envvar loads is not read")
            elif node.attr.value == "autodiscover_tasks":
                self._discover(file, node, app)
            elif node.attr.value == "set_default":
                self._remove(file, file.parent(node), app)

    def _from_object(self, file: PythonFile, node: cst.Attribute, app: _App) -> None:
        call = file.parent(node)
        if not isinstance(call, cst.Call) or not call.args:
            raise Unclear(f"{NOT_READ} config_from_object loads is not read")
        schedules = self._loaded(file, call.args[0].value, app)
        if schedules and isinstance(file.parent(call), cst.Expr):
            added = (file.whole(node.value), f".schedule(*{schedules})")
            app.edits.append(file.replace(file.span(call), *added))
        else:
            self._remove(file, call, app)

    def _loaded(self, file: PythonFile, loaded: cst.BaseExpression, app: _App) -> str:
        """Take the settings of a module or class of this project, or of Django's, by their names
        there; what schedules are called, if there are any."""
        sources = [each for each in file.facts.configuration if each.path == file.path]
        found = names_of(file, sources[0]) if len(sources) == 1 else None
        if found is None or (sources[0].how == "object" and not dotted(loaded)):
            raise Unclear(f"{NOT_READ} config_from_object loads is not read")
        schedules = ""
        for full, name in found:
            config = config_by_name(file, name)
            if name not in INCLUDE and name != "beat_schedule" and config is None:
                continue
            owner, _, last = full.rpartition(".")
            if sources[0].how == "object":
                shown = f"{dotted(loaded)}.{last}"
            elif owner == DJANGO:
                text, imports = file.import_as(DJANGO, loaded)
                shown = f"{text}.{last}"
                app.imports += imports
            else:
                shown, imports = file.import_as(full, loaded)
                app.imports += imports
            if name == "beat_schedule":
                schedules = shown
            elif name in INCLUDE:
                app.include.append((shown,))
            elif config is not None:
                app.config[config[0]] = (config[1].format(shown),)
        app.guessed = True
        return schedules

    def _conf(self, file: PythonFile, conf: cst.Attribute, app: _App) -> None:
        around = file.parent(conf)
        holder = file.parent(around) if around is not None else None
        if (
            isinstance(around, cst.Attribute)
            and around.attr.value == "update"
            and isinstance(holder, cst.Call)
            and isinstance(file.parent(holder), cst.Expr)
        ):
            arguments = Arguments.of(holder)
            given = [dict_items(each) for each in arguments.positional]
            if arguments.open or None in given:
                raise Unclear("settings are arguments of Config; conf.update hides some")
            for each in (*given, arguments.keywords):
                self._take(file, each or {}, app)
            self._remove(file, file.parent(holder), app)
            return
        name = _setting(around)
        if name and isinstance(holder, cst.AssignTarget):
            if name == "beat_schedule":
                return  # TMQ160
            assign = file.parent(holder)
            if isinstance(assign, cst.Assign) and len(assign.targets) == 1:
                self._take(file, {name: assign.value}, app)
                self._remove(file, assign, app)
                return
        if reading_of(file, conf) is None:
            raise Unclear("settings are arguments of Config; here they are changed later")

    def _discover(self, file: PythonFile, node: cst.Attribute, app: _App) -> None:
        call = file.parent(node)
        if not isinstance(call, cst.Call) or not isinstance(file.parent(call), cst.Expr):
            raise Unclear("autodiscover_tasks: name the modules with tasks in App(include=[…])")
        given = Arguments.of(call).named("packages", "related_name", "force") or {}
        packages = given.get("packages")
        if isinstance(packages, cst.List | cst.Tuple) and "related_name" not in given:
            members: list[Parts] = [
                (file.whole(each.value), ' + ".tasks"')
                if not isinstance(each.value, cst.SimpleString)
                else (f'"{literal_text(each.value)}.tasks"',)
                for each in packages.elements
            ]
        elif packages is None or not isinstance(packages, cst.List | cst.Tuple):
            members = [(f'"{each}"',) for each in file.facts.task_modules()]
            app.guessed = True
        else:
            raise Unclear("autodiscover_tasks: name the modules with tasks in App(include=[…])")
        app.include.append(("[", *comma_separated(members), "]"))
        self._remove(file, file.parent(call), app)

    def _remove(self, file: PythonFile, statement: cst.CSTNode | None, app: _App) -> None:
        """Take a statement out, with its line."""
        if isinstance(statement, cst.Call):
            statement = file.parent(statement)
        line = file.parent(statement) if statement is not None else None
        if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
            raise Unclear("settings are arguments of Config; here they stand in a line with more")
        if file.parent(line) is not app.block:
            raise Unclear("settings are arguments of Config; here they depend on a condition")
        if line.trailing_whitespace.comment is not None:
            raise Unclear("settings are arguments of Config; a comment stands behind one")
        app.edits.append(file.replace(file.lines_of(line)))


def _is_django(file: PythonFile) -> bool:
    """Whether Celery would have set Django up before the tasks are imported."""
    facts = file.facts.modules.get(file.path)
    sources = facts.configuration if facts is not None else ()
    return bool(facts and facts.django_settings) or any(each.how == "django" for each in sources)


def _setting(node: cst.CSTNode | None) -> str:
    """The setting that ``conf.name`` or ``conf["name"]`` is."""
    if isinstance(node, cst.Attribute):
        return node.attr.value
    if isinstance(node, cst.Subscript) and len(node.slice) == 1:
        index = node.slice[0].slice
        return (literal_text(index.value) or "") if isinstance(index, cst.Index) else ""
    return ""


RULE = MakeApp()
