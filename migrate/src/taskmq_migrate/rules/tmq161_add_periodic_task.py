"""``add_periodic_task``: schedules that a receiver adds."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from taskmq_migrate.arguments import Arguments, Part, Parts, comma_separated, is_literal
from taskmq_migrate.model import Edit, Example, NewImport, Page, Safety, Site, Span, Target
from taskmq_migrate.native.schedules import rule_of, zone_of
from taskmq_migrate.native.signatures import is_signature, plain
from taskmq_migrate.problems import Unclear
from taskmq_migrate.pythonfile import PythonFile
from taskmq_migrate.rule import PythonRule

__all__ = ["RULE"]

SIGNALS = ("on_after_configure", "on_after_finalize")
PARAMETERS = ("schedule", "sig", "args", "kwargs", "name")
BY_HAND = (
    "write app.schedule(every(task, seconds=…), cron(task, …)) at the top of a module, with the "
    "names of the tasks"
)


class AddPeriodicTask(PythonRule):
    id = "TMQ161"
    title = "add_periodic_task(...) becomes app.schedule(...)"
    targets = frozenset({Target.NATIVE})
    words = ("add_periodic_task", "on_after_configure", "on_after_finalize")
    page = Page(
        why="The engine's schedules name their task, so no receiver has to wait until the app is "
        "complete: the function that added them is called at the end of its module.",
        risk="It runs when the module is imported, where Celery called it later. A receiver that "
        "does anything else with the app is marked. Intervals are counted from fixed instants. "
        "Where the time zone of a crontab cannot be seen in the file, the conversion waits for "
        "--unsafe and takes UTC.",
        examples=(
            Example(
                "app.py",
                before="from celery import Celery\nfrom celery.schedules import crontab\n\n"
                'app = Celery("shop")\n\n\n'
                "@app.task\ndef check(x): ...\n\n\n"
                "@app.on_after_configure.connect\n"
                "def set_up(sender, **kwargs):\n"
                '    sender.add_periodic_task(10.0, check.s(1), name="often")\n'
                "    sender.add_periodic_task(crontab(hour=7), check.s(2), name='daily')\n",
                after="from celery import Celery\nfrom taskmq.schedule import cron, every\n\n"
                'app = Celery("shop")\n\n\n'
                "@app.task\ndef check(x): ...\n\n\n"
                "def set_up(sender, **kwargs):\n"
                '    sender.schedule(every(check.name, seconds=10.0, args=(1,), name="often"))\n'
                "    sender.schedule(cron(check.name, \"* 7 * * *\", args=(2,), name='daily'))\n"
                "\n\nset_up(app)\n",
            ),
            Example(
                "late.py",
                before="from celery import Celery\n\n"
                'app = Celery("shop")\n\n\n'
                "@app.on_after_configure.connect\n"
                "def set_up(sender, **kwargs):\n"
                "    sender.add_periodic_task(interval(), check.s())\n",
                after="from celery import Celery\n\n"
                'app = Celery("shop")\n\n\n'
                "# TODO(taskmq-migrate TMQ161): write app.schedule(every(task, seconds=…), "
                "cron(task, …)) at the top of a module, with the names of the tasks\n"
                "@app.on_after_configure.connect\n"
                "def set_up(sender, **kwargs):\n"
                "    sender.add_periodic_task(interval(), check.s())\n",
            ),
        ),
    )

    def sites(self, file: PythonFile) -> Iterator[Site]:
        receivers = [
            (function, signal)
            for function in file.nodes(cst.FunctionDef)
            if (signal := _signal(file, function)) is not None
        ]
        inside: set[cst.CSTNode] = set()
        for function, signal in receivers:
            try:
                yield self._receiver(file, function, signal)
            except Unclear:
                yield file.mark_at(function.decorators[0], BY_HAND)
            inside.add(function)
        for node in file.nodes(cst.Attribute):
            if node.attr.value in SIGNALS and file.is_app(node.value):
                around = file.enclosing(node, cst.Decorator)
                if around is None or file.parent(around) not in inside:
                    yield file.mark_at(node, BY_HAND)
            elif node.attr.value == "add_periodic_task" and file.is_app(node.value):
                call = file.parent(node)
                if isinstance(call, cst.Call) and not inside.intersection(file.ancestors(node)):
                    yield self._added(file, node, call)

    def _added(self, file: PythonFile, node: cst.Attribute, call: cst.Call) -> Site:
        """One that is added to the app itself."""
        try:
            schedule = _Schedule.of(file, call, node.value)
        except Unclear:
            return file.mark_at(call, BY_HAND)
        return self._site(file, call, [schedule], ())

    def _receiver(self, file: PythonFile, function: cst.FunctionDef, signal: cst.Attribute) -> Site:
        parameters = [*function.params.posonly_params, *function.params.params]
        block = file.parent(function)
        only = len(function.decorators) == 1 and len(parameters) == 1
        if not only or not isinstance(block, cst.Module) or function.params.kwonly_params:
            raise Unclear("its signature")
        sender = parameters[0].name
        schedules = []
        for name in file.nodes(cst.Name):
            if name.value != sender.value or name is sender or not _is_inside(file, name, function):
                continue
            method = file.parent(name)
            call = file.parent(method) if method is not None else None
            if (
                not isinstance(method, cst.Attribute)
                or method.value is not name
                or method.attr.value != "add_periodic_task"
                or not isinstance(call, cst.Call)
            ):
                raise Unclear("something else is done with the app")
            schedules.append(_Schedule.of(file, call, name))
        if not schedules:
            raise Unclear("it adds nothing")
        start = file.span(function.decorators[0]).start
        gap = "" if file.text.endswith(("\n", "\r")) else file.newline
        ending = f"{gap}{file.newline}{file.newline}{function.name.value}("
        edits = (
            file.replace(Span(file.line_start(start), _after_decorator(file, function))),
            file.replace(
                Span(len(file.text), len(file.text)),
                ending,
                file.code(signal.value),
                f"){file.newline}",
            ),
        )
        return self._site(file, function.decorators[0], schedules, edits)

    def _site(
        self,
        file: PythonFile,
        where: cst.CSTNode,
        schedules: list[_Schedule],
        edits: tuple[Edit, ...],
    ) -> Site:
        imports = tuple(each for one in schedules for each in one.imports)
        zoned = any(each.zoned for each in schedules) and zone_of(file) is None
        return file.convert_at(
            where,
            "schedules of the app",
            *edits,
            *(each.edit for each in schedules),
            imports=imports,
            released=tuple(each for one in schedules for each in one.released),
            safety=Safety.UNSAFE if zoned else None,
        )


class _Schedule:
    """``app.schedule(…)`` in the place of one call."""

    def __init__(
        self,
        edit: Edit,
        imports: tuple[NewImport, ...],
        released: tuple[cst.CSTNode, ...],
        zoned: bool,
    ) -> None:
        self.edit = edit
        self.imports = imports
        self.released = released
        self.zoned = zoned

    @classmethod
    def of(cls, file: PythonFile, call: cst.Call, app: cst.BaseExpression) -> _Schedule:
        """Raises `Unclear`."""
        given = Arguments.of(call).named(*PARAMETERS)
        if given is None or not {"schedule", "sig"} <= given.keys() <= {*PARAMETERS, "queue"}:
            raise Unclear("its arguments")
        signature = given["sig"]
        if not is_signature(file, signature) or not isinstance(signature, cst.Call):
            raise Unclear("its task is not written out")
        made, method, options = plain(file, signature)
        if options or any(each.star for each in made.args):
            raise Unclear("its options")
        rule = rule_of(file, given["schedule"])
        function, imports = file.import_as(f"taskmq.schedule.{rule.function}", call)
        arguments: list[Parts] = [(file.whole(method.value), ".name"), rule.when]
        zone = zone_of(file)
        if rule.has_zone and zone not in {None, "UTC"}:
            arguments.append((f'tz="{zone}"',))
        arguments += _arguments(file, made, given)
        if "name" in given and not is_literal(given["name"], "None"):
            arguments.append(("name=", file.whole(given["name"])))
        if "queue" in given:
            arguments.append(('options={"queue": ', file.whole(given["queue"]), "}"))
        text = (f"{function}(", *comma_separated(arguments), ")")
        edit = file.replace(file.span(call), file.whole(app), ".schedule(", *text, ")")
        return cls(edit, imports, rule.released, rule.has_zone)


def _arguments(
    file: PythonFile, made: cst.Call, given: dict[str, cst.BaseExpression]
) -> list[Parts]:
    found: list[Parts] = []
    positional = [(file.whole(each.value),) for each in made.args if each.keyword is None]
    if positional:
        comma = "," if len(positional) == 1 else ""
        found.append(("args=(", *comma_separated(positional), f"{comma})"))
    keywords: list[Part] = []
    for each in made.args:
        if each.keyword is not None:
            comma = ", " if keywords else ""
            keywords += [f'{comma}"{each.keyword.value}": ', file.whole(each.value)]
    if keywords:
        found.append(("kwargs={", *keywords, "}"))
    for name in ("args", "kwargs"):
        if name in given:
            if positional or keywords:
                raise Unclear("arguments stand twice")
            found.append((f"{name}=", file.whole(given[name])))
    return found


def _signal(file: PythonFile, function: cst.FunctionDef) -> cst.Attribute | None:
    """``app.on_after_configure`` of the decorator that connects a receiver."""
    for each in function.decorators:
        connect = each.decorator.func if isinstance(each.decorator, cst.Call) else each.decorator
        if (
            isinstance(connect, cst.Attribute)
            and connect.attr.value == "connect"
            and isinstance(connect.value, cst.Attribute)
            and connect.value.attr.value in SIGNALS
            and file.is_app(connect.value.value)
        ):
            return connect.value
    return None


def _is_inside(file: PythonFile, node: cst.CSTNode, function: cst.FunctionDef) -> bool:
    return any(each is function.body for each in file.ancestors(node))


def _after_decorator(file: PythonFile, function: cst.FunctionDef) -> int:
    """Where the line behind the first decorator begins."""
    end = file.span(function.decorators[0].decorator).end
    return next(each for each in file.line_starts if each >= end)


RULE = AddPeriodicTask()
