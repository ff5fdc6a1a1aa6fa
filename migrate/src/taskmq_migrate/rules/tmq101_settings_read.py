"""Who reads the settings of an app: ``app.conf.x`` becomes ``app.config.y``."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from taskmq_migrate.arguments import Arguments, Parts
from taskmq_migrate.model import Example, NewImport, Page, Safety, Site, Target
from taskmq_migrate.names import literal_text
from taskmq_migrate.native.bodies import is_task_function
from taskmq_migrate.native.readers import Reading, is_made_here, reading_of
from taskmq_migrate.native.settings import POOLS
from taskmq_migrate.problems import Unclear
from taskmq_migrate.pythonfile import PythonFile
from taskmq_migrate.rule import PythonRule

__all__ = ["RULE"]

CURRENT = ("celery.current_app", "celery._state.current_app")
APP = (
    "from celery import Celery\n\n"
    'app = Celery("shop", broker="memory://")\napp.conf.worker_concurrency = 3\n'
)


class SettingsRead(PythonRule):
    id = "TMQ101"
    title = "what reads app.conf asks app.config"
    targets = frozenset({Target.NATIVE})
    words = ("elery", "conf", "timezone", "import_default_modules")
    page = Page(
        why="The settings of an app are its Config, under the engine's names. The names of its "
        "schedules are those of app.schedules; tasks of included modules are there once app.load() "
        "was called.",
        risk="A setting that the project does not set has the engine's default. result_expires may "
        "have been a timedelta: config.result_ttl is seconds, so that waits for --unsafe, and so "
        "does current_app outside of tasks, for which the app of the project is imported. Settings "
        "that the engine does not have are marked.",
        examples=(
            Example(
                "status.py",
                before="from celery import current_app\n"
                "from shop.app import app\n\n\n"
                "def slots():\n"
                '    return app.conf.worker_concurrency, app.conf["task_default_queue"]\n\n\n'
                "@app.task\ndef is_eager():\n"
                '    return current_app.conf.get("task_always_eager")\n',
                after="from taskmq import current_app as taskmq_current_app\n"
                "from shop.app import app\n\n\n"
                "def slots():\n"
                "    return app.config.concurrency, app.config.default_queue\n\n\n"
                "@app.task\ndef is_eager():\n"
                "    return taskmq_current_app().config.eager\n",
                others={"shop/app.py": APP},
            ),
            Example(
                "prefetch.py",
                before="from shop.app import app\n\nprint(app.conf.worker_prefetch_multiplier)\n",
                after="from shop.app import app\n\n"
                "# TODO(taskmq-migrate TMQ101): worker_prefetch_multiplier: the engine has no such "
                "setting\n"
                "print(app.conf.worker_prefetch_multiplier)\n",
                others={"shop/app.py": APP},
            ),
        ),
    )

    def sites(self, file: PythonFile) -> Iterator[Site]:
        for node in file.nodes(cst.Attribute):
            if file.is_conf(node):
                yield from self._conf(file, node)
            elif node.attr.value == "timezone" and file.is_app(node.value):
                yield from self._zone(file, node)
            elif node.attr.value == "import_default_modules":
                yield from self._loading(file, node)

    def _conf(self, file: PythonFile, conf: cst.Attribute) -> Iterator[Site]:
        try:
            found = reading_of(file, conf)
            if found is None:
                return
            site = self._converted(file, conf, found)
        except Unclear as problem:
            if not is_made_here(file, conf.value):
                yield file.mark_at(conf, str(problem))
            return
        yield site

    def _converted(self, file: PythonFile, conf: cst.Attribute, found: Reading) -> Site:
        owner, imports, guessed = _owner(file, conf.value)
        edits = [file.replace(file.span(found.whole), found.before, *owner, found.after)]
        if found.compared is not None:
            edits.append(file.swap(found.compared, POOLS[literal_text(found.compared) or ""]))
        return file.convert_at(
            found.whole,
            "a setting of the engine's",
            *edits,
            imports=imports,
            released=(conf.value,) if imports else (),
            safety=Safety.UNSAFE if guessed or found.guessed else None,
        )

    def _zone(self, file: PythonFile, node: cst.Attribute) -> Iterator[Site]:
        if isinstance(file.parent(node), cst.AssignTarget):
            return
        owner, imports, guessed = _owner(file, node.value)
        zone, more = file.import_as("zoneinfo.ZoneInfo", node)
        yield file.convert_at(
            node,
            "the time zone of the app",
            file.replace(file.span(node), f"{zone}(", *owner, ".config.timezone)"),
            imports=(*imports, *more),
            released=(node.value,) if imports else (),
            safety=Safety.UNSAFE if guessed else None,
        )

    def _loading(self, file: PythonFile, node: cst.Attribute) -> Iterator[Site]:
        """``app.loader.import_default_modules()``."""
        loader, call = node.value, file.parent(node)
        if (
            isinstance(loader, cst.Attribute)
            and loader.attr.value == "loader"
            and file.is_app(loader.value)
            and isinstance(call, cst.Call)
            and not Arguments.of(call).positional
        ):
            owner, imports, guessed = _owner(file, loader.value)
            yield file.convert_at(
                call,
                "imports the modules with tasks",
                file.replace(file.span(call), *owner, ".load()"),
                imports=imports,
                released=(loader.value,) if imports else (),
                safety=Safety.UNSAFE if guessed else None,
            )


def _owner(file: PythonFile, app: cst.BaseExpression) -> tuple[Parts, tuple[NewImport, ...], bool]:
    """How to write an app, what that needs, and whether it is a guess. Raises `Unclear`."""
    if not file.is_(app, *CURRENT):
        return (file.whole(app),), (), False
    if any(
        isinstance(each, cst.FunctionDef) and is_task_function(file, each)
        for each in file.ancestors(app)
    ):
        text, imports = file.import_as("taskmq.current_app", app)
        return (f"{text}()",), imports, False
    only = file.facts.only_app
    if only is None:
        raise Unclear("current_app: import the app, or taskmq.current_app() inside a task")
    text, imports = file.import_as(only, app)
    return (text,), imports, True


RULE = SettingsRead()
