"""``AsyncResult``: the handle of a job."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from taskmq_migrate.arguments import Arguments, Parts
from taskmq_migrate.model import Example, NewImport, Page, Safety, Site, Target
from taskmq_migrate.native.handles import CLASSES, is_handle
from taskmq_migrate.pythonfile import PythonFile
from taskmq_migrate.rule import PythonRule

__all__ = ["RULE"]

# Methods of a result without arguments, and what asks the same of a Result.
ASKED = {
    "successful": '.state == "SUCCEEDED"',
    "failed": '.state == "FAILED"',
}
GONE = {
    "children": "a workflow's status lists its jobs",
    "parent": "a workflow's status lists its jobs",
    "collect": "a workflow's status lists its jobs",
    "result": "get() gives the value; info has the error",
    "traceback": "info has the error",
    "date_done": "info has finished_at",
    "then": "what follows a job is a node of a workflow",
}


class Results(PythonRule):
    id = "TMQ140"
    title = "AsyncResult becomes the handle that the app gives"
    targets = frozenset({Target.NATIVE})
    words = ("elery", "taskmq")
    page = Page(
        why="app.result(id) is the handle of a job that was submitted elsewhere; get(timeout=), "
        "revoke() and forget() are there as well. The states have other names.",
        risk="get() raises RemoteError for a job that failed, with the type and text of the "
        "original exception, "
        "instead of the exception itself; TimeoutError is ResultTimeout, which is a TimeoutError. "
        "Where no app is named, that of the project is imported: with --unsafe if its module "
        "imports others of the project, which may import this one.",
        examples=(
            Example(
                "views.py",
                before="from shop.app import app\n\n\n"
                "def show(job_id):\n    return app.AsyncResult(job_id).get(timeout=5)\n",
                after="from shop.app import app\n\n\n"
                "def show(job_id):\n    return app.result(job_id).get(timeout=5)\n",
                others={"shop/app.py": 'from celery import Celery\n\napp = Celery("shop")\n'},
            ),
            Example(
                "poll.py",
                before="from celery.result import AsyncResult\n"
                "from shop.app import app\n\n\n"
                "def is_done(job_id):\n    return AsyncResult(job_id, app=app).successful()\n\n\n"
                "def is_over(job_id):\n    return AsyncResult(job_id).ready()\n",
                after="from taskmq.states import TERMINAL\nfrom shop.app import app\n\n\n"
                'def is_done(job_id):\n    return (app.result(job_id).state == "SUCCEEDED")\n\n\n'
                "def is_over(job_id):\n    return (app.result(job_id).state in TERMINAL)\n",
                others={"shop/app.py": 'from celery import Celery\n\napp = Celery("shop")\n'},
            ),
        ),
    )

    def sites(self, file: PythonFile) -> Iterator[Site]:
        for call in file.nodes(cst.Call):
            if file.is_(call.func, *CLASSES):
                yield self._made(file, call, (), (call.func,))
            elif isinstance(call.func, cst.Attribute) and call.func.attr.value == "AsyncResult":
                owner = call.func.value
                if file.is_app(owner):
                    yield self._made(file, call, (file.whole(owner),))
                elif file.is_task(owner):
                    yield self._made(file, call, (file.whole(owner), ".app"))
        for node in file.nodes(cst.Attribute):
            if is_handle(file, node.value):
                yield from self._asked(file, node)

    def _made(
        self,
        file: PythonFile,
        call: cst.Call,
        app: Parts,
        released: tuple[cst.BaseExpression, ...] = (),
    ) -> Site:
        given = Arguments.of(call).named("id", "backend", "task_name", "app", "parent") or {}
        job = given.get("id", given.get("task_id"))
        if job is None or not given.keys() <= {"id", "task_id", "app"}:
            return file.mark_at(call, "the handle of a job is app.result(id)")
        if "app" in given:
            app = (file.whole(given["app"]),)
        imports: tuple[NewImport, ...] = ()
        if not app:
            only = file.facts.only_app
            if only is None:
                return file.mark_at(
                    call, "the handle of a job is app.result(id), and this names no app"
                )
            text, imports = file.import_as(only, call)
            app = (text,)
        parts = (*app, ".result(", file.whole(job), ")")
        return file.convert_at(
            call,
            "a handle",
            file.replace(file.span(call), *parts),
            imports=imports,
            released=released,
            safety=Safety.UNSAFE if imports and not file.facts.app_stands_alone else None,
        )

    def _asked(self, file: PythonFile, node: cst.Attribute) -> Iterator[Site]:
        name = node.attr.value
        call = file.parent(node)
        if name == "ready" and isinstance(call, cst.Call) and call.func is node and not call.args:
            text, imports = file.import_as("taskmq.states.TERMINAL", node)
            yield file.convert_at(
                call,
                "asks for the state",
                file.replace(file.span(call), "(", file.whole(node.value), f".state in {text})"),
                imports=imports,
            )
        elif name in ASKED and isinstance(call, cst.Call) and call.func is node and not call.args:
            yield file.convert_at(
                call,
                "asks for the state",
                file.replace(file.span(call), "(", file.whole(node.value), ASKED[name], ")"),
            )
        elif name in GONE:
            yield file.mark_at(node, f"{name}: {GONE[name]}")


RULE = Results()
