"""Tests: jobs that run at once, and the fixtures of ``celery.contrib.pytest``."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from taskmq_migrate.arguments import Arguments, is_literal
from taskmq_migrate.model import Example, NewImport, Page, Safety, Site, Target
from taskmq_migrate.native.canvas import is_canvas
from taskmq_migrate.native.signatures import is_signature
from taskmq_migrate.pythonfile import PythonFile
from taskmq_migrate.rule import PythonRule

__all__ = ["RULE"]

OVERRIDES = ("django.test.override_settings", "django.test.utils.override_settings")
EAGER = frozenset({"CELERY_ALWAYS_EAGER", "CELERY_TASK_ALWAYS_EAGER", "TASK_ALWAYS_EAGER"})
GOES_WITH_IT = frozenset(
    {
        "CELERY_EAGER_PROPAGATES",
        "CELERY_EAGER_PROPAGATES_EXCEPTIONS",
        "CELERY_TASK_EAGER_PROPAGATES",
        "CELERY_TASK_STORE_EAGER_RESULT",
    }
)
EAGERLY = "taskmq.testing.eager"
APPLY = (
    "apply: call the task to run it here and now; with taskmq.testing.eager(app) jobs run at once"
)
BY_HAND = "with taskmq.testing.eager(app) jobs run at once; worker_for(app) has a worker"
FIXTURES = {
    "celery_app": "taskmq_app of taskmq.testing.pytest_plugin; isolated(app) for the app of a "
    "program",
    "celery_config": "App(Config(…)) in a fixture taskmq_app",
    "celery_session_app": "taskmq_app of taskmq.testing.pytest_plugin, in each test",
    "celery_session_worker": "taskmq_worker, which runs when told to: run_until_idle()",
    "celery_worker": "taskmq_worker of taskmq.testing.pytest_plugin, which runs when told to: "
    "run_until_idle()",
    "celery_worker_parameters": "worker_for(app, pool=…, concurrency=…)",
}


class Testing(PythonRule):
    id = "TMQ170"
    title = "tests run jobs at once by taskmq.testing.eager"
    safety = Safety.UNSAFE
    targets = frozenset({Target.NATIVE})
    words = ("elery", "ALWAYS_EAGER", *sorted(FIXTURES))
    page = Page(
        why="Settings are read when the app of the engine is made, so a test cannot change them "
        "later: eager(app) lets an app run its jobs at once for a while, as a decorator of a "
        "function or in a with statement. A test that runs tasks by apply() is decorated. "
        "Celery's fixtures start a worker in a thread; "
        "taskmq_worker runs in the test's own thread, when it is told to.",
        risk="The app of the project is imported, and errors of jobs are in their results: "
        "delay() does not raise them as task_eager_propagates does. Fixtures are marked.",
        examples=(
            Example(
                "tests.py",
                before="from django.test import override_settings\n\n\n"
                "@override_settings(CELERY_TASK_ALWAYS_EAGER=True)\n"
                "def test_order():\n    assert order() == 1\n\n\n"
                "def test_mail():\n"
                "    with override_settings(CELERY_TASK_ALWAYS_EAGER=True, DEBUG=True):\n"
                "        assert mail() == 1\n",
                after="from django.test import override_settings\n"
                "from shop.celery import app\nfrom taskmq.testing import eager\n\n\n"
                "@eager(app)\n"
                "def test_order():\n    assert order() == 1\n\n\n"
                "def test_mail():\n"
                "    with eager(app), override_settings(DEBUG=True):\n"
                "        assert mail() == 1\n",
                others={
                    "shop/__init__.py": "",
                    "shop/celery.py": 'from celery import Celery\n\napp = Celery("shop")\n',
                },
            ),
            Example(
                "test_order.py",
                before="from shop.tasks import order\n\n\n"
                "def test_order():\n    assert order.apply((3,)).get() == 3\n",
                after="from shop.tasks import order\nfrom shop.celery import app\n"
                "from taskmq.testing import eager\n\n\n"
                "@eager(app)\n"
                "def test_order():\n    assert order.apply_async((3,)).get() == 3\n",
                others={
                    "shop/__init__.py": "",
                    "shop/celery.py": 'from celery import Celery\n\napp = Celery("shop")\n',
                    "shop/tasks.py": "from celery import shared_task\n\n\n"
                    "@shared_task\ndef order(number):\n    return number\n",
                },
            ),
            Example(
                "test_worker.py",
                before="def test_add(celery_worker):\n    assert add.delay(1, 2).get() == 3\n",
                after="# TODO(taskmq-migrate TMQ170): celery_worker: taskmq_worker of "
                "taskmq.testing.pytest_plugin, which runs when told to: run_until_idle()\n"
                "def test_add(celery_worker):\n    assert add.delay(1, 2).get() == 3\n",
            ),
        ),
    )

    def sites(self, file: PythonFile) -> Iterator[Site]:
        for call in file.nodes(cst.Call):
            if file.is_(call.func, *OVERRIDES):
                yield from self._override(file, call)
        yield from self._applied(file)
        for function in file.nodes(cst.FunctionDef):
            if function.name.value in FIXTURES and function.decorators:
                yield self._fixture(file, function.name)
            is_test = function.name.value.startswith("test") or function.decorators
            for parameter in function.params.params if is_test else ():
                if parameter.name.value in FIXTURES and parameter.default is None:
                    yield self._fixture(file, parameter.name)

    def _fixture(self, file: PythonFile, name: cst.Name) -> Site:
        return file.mark_at(name, f"{name.value}: {FIXTURES[name.value]}")

    def _applied(self, file: PythonFile) -> Iterator[Site]:
        """``apply()``: in a test the jobs of the whole function run at once."""
        tests: dict[cst.FunctionDef, list[cst.Attribute]] = {}
        for node in file.nodes(cst.Attribute):
            call = file.parent(node)
            if (
                node.attr.value != "apply"
                or not isinstance(call, cst.Call)
                or call.func is not node
            ):
                continue
            if not (
                file.is_task(node.value)
                or is_signature(file, node.value)
                or is_canvas(file, node.value)
            ):
                continue
            test = file.enclosing(call, cst.FunctionDef)
            known = Arguments.of(call).named("args", "kwargs")
            if (
                test is None
                or not test.name.value.startswith("test")
                or test.asynchronous is not None
                or known is None
                or file.facts.only_app is None
            ):
                yield file.mark_at(call, APPLY)
            else:
                tests.setdefault(test, []).append(node)
        for test, nodes in tests.items():
            yield self._at_once(file, test, nodes)

    def _at_once(self, file: PythonFile, test: cst.FunctionDef, nodes: list[cst.Attribute]) -> Site:
        edits = [file.swap(each.attr, "apply_async") for each in nodes]
        imports: tuple[NewImport, ...] = ()
        if not any(file.is_(_callee(each), EAGERLY) for each in test.decorators):
            name, imports = file.import_as(EAGERLY, test)
            app, more = file.import_as(str(file.facts.only_app), test)
            first = file.span(test.decorators[0] if test.decorators else test).start
            indent = file.text[file.line_start(first) : first]
            edits.append(file.insert(first, f"@{name}({app}){file.newline}{indent}"))
            imports += more
        return file.convert_at(nodes[0], "jobs run at once", *edits, imports=imports)

    def _override(self, file: PythonFile, call: cst.Call) -> Iterator[Site]:
        given = {each.keyword.value: each for each in call.args if each.keyword is not None}
        eager = [each for name, each in given.items() if name in EAGER]
        if not eager:
            return
        around = file.parent(call)
        app = file.facts.only_app
        decorated = file.parent(around) if isinstance(around, cst.Decorator) else None
        if (
            app is None
            or len(given) != len(call.args)
            or not is_literal(eager[0].value, "True")
            or not isinstance(decorated if decorated is not None else around, HOLDERS)
        ):
            yield file.mark_at(call, BY_HAND)
            return
        name, imports = file.import_as("taskmq.testing.eager", call)
        shown, more = file.import_as(app, call)
        left = [each for key, each in given.items() if key not in EAGER | GOES_WITH_IT]
        if not left:
            edit = file.replace(file.span(call), f"{name}({shown})")
            released: tuple[cst.CSTNode, ...] = (call.func,)
        else:
            rest = [part for each in left for part in (", ", file.span(each))][1:]
            kept = (file.span(call.func), "(", *rest, ")")
            gap = f"{file.newline}{self._indent(file, call)}@" if decorated is not None else ", "
            edit = file.replace(file.span(call), f"{name}({shown}){gap}", *kept)
            released = ()
        yield file.convert_at(
            call, "jobs run at once", edit, imports=(*imports, *more), released=released
        )

    def _indent(self, file: PythonFile, call: cst.Call) -> str:
        start = file.line_start(file.span(call).start)
        return file.text[start : file.span(call).start].rpartition("@")[0]


def _callee(decorator: cst.Decorator) -> cst.BaseExpression:
    called = decorator.decorator
    return called.func if isinstance(called, cst.Call) else called


HOLDERS = (cst.FunctionDef, cst.WithItem)
RULE = Testing()
