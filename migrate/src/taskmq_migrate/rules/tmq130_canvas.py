"""``chain``, ``group``, ``chord``: a workflow."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from taskmq_migrate.model import Example, Page, Safety, Site, Span, Target
from taskmq_migrate.native.canvas import Compiler, is_canvas, is_signature, launched
from taskmq_migrate.problems import Unclear
from taskmq_migrate.pythonfile import PythonFile
from taskmq_migrate.rule import PythonRule

__all__ = ["RULE"]

TASKS = (
    "from celery import shared_task\n\n\n@shared_task\ndef fetch(url): ...\n\n\n"
    "@shared_task\ndef store(pages, where): ...\n\n\n@shared_task\ndef tell(): ...\n"
)


class Canvas(PythonRule):
    id = "TMQ130"
    title = "chains, groups and chords become workflows"
    targets = frozenset({Target.NATIVE})
    words = ("elery", "taskmq")
    page = Page(
        why="A workflow is built from nodes and stored in one step; nobody polls for the end of a "
        "group. A result among the arguments is a node.",
        risk="The value is a WorkflowRun: get(timeout), status(), cancel() and retry(), with the "
        "id of the workflow. "
        "A group that is made by a comprehension gives a list if it has several members and the "
        "result itself if it has one: where it is the last step, that waits for --unsafe.",
        examples=(
            Example(
                "views.py",
                before="from celery import chain, chord\n"
                "from shop.tasks import fetch, store, tell\n\n\n"
                "def crawl(urls):\n"
                '    chain(fetch.s(urls[0]), store.s("here"), tell.si()).delay()\n'
                '    return chord([fetch.s(url) for url in urls])(store.s(where="there"))\n',
                after="from taskmq.workflow import Workflow\n"
                "from shop.tasks import fetch, store, tell\n\n\n"
                "def crawl(urls):\n"
                "    flow = Workflow()\n"
                '    flow.add(tell, after=flow.add(store, flow.add(fetch, urls[0]), "here"))\n'
                "    flow.submit()\n"
                "    flow = Workflow()\n"
                '    flow.add(store, [flow.add(fetch, url) for url in urls], where="there")\n'
                "    return flow.submit()\n",
                others={"shop/tasks.py": TASKS},
            ),
            Example(
                "later.py",
                before="from celery import group\nfrom shop.tasks import fetch\n\n\n"
                "def prepare(urls):\n    return group(fetch.s(url) for url in urls)\n",
                after="from celery import group\nfrom shop.tasks import fetch\n\n\n"
                "def prepare(urls):\n"
                "    # TODO(taskmq-migrate TMQ130): a canvas that is not submitted where it is "
                "made: build a taskmq.workflow.Workflow\n"
                "    return group(fetch.s(url) for url in urls)\n",
                others={"shop/tasks.py": TASKS},
            ),
        ),
    )

    def sites(self, file: PythonFile) -> Iterator[Site]:
        found: list[cst.BaseExpression] = [*file.nodes(cst.Call)]
        found += file.nodes(cst.BinaryOperation)
        for node in found:
            if not is_canvas(file, node) and not is_signature(file, node):
                continue
            if any(
                is_canvas(file, each) or is_signature(file, each) or _is_option(file, each)
                for each in file.ancestors(node)
            ):
                continue
            try:
                yield self._site(file, node)
            except Unclear as problem:
                yield file.mark_at(node, str(problem))

    def _site(self, file: PythonFile, node: cst.BaseExpression) -> Site:
        call, body = launched(file, node)
        statement = self._statement(file, call)
        flow = self._free_name(file, node)
        compiler = Compiler(file, flow)
        compiler.build(node, body)
        workflow, imports = file.import_as("taskmq.workflow.Workflow", node)
        span, start = file.span(statement), file.span(call).start
        indent = file.text[file.line_start(span.start) : span.start]
        gap = f"{file.newline}{indent}"
        parts: list[str | Span] = [f"{flow} = {workflow}()", gap]
        for each in compiler.statements:
            parts += [*each, gap]
        parts += [Span(span.start, start), f"{flow}.submit()", Span(file.span(call).end, span.end)]
        return file.convert_at(
            call,
            "a workflow",
            file.replace(span, *parts),
            imports=imports,
            released=tuple(compiler.released),
            safety=Safety.UNSAFE if compiler.guessed else None,
        )

    def _statement(self, file: PythonFile, call: cst.Call) -> cst.CSTNode:
        """The statement that begins with evaluating the call. Raises `Unclear`."""
        statement = next(
            (each for each in file.ancestors(call) if isinstance(each, cst.BaseSmallStatement)),
            None,
        )
        line = file.parent(statement) if statement is not None else None
        if (
            not isinstance(statement, cst.Expr | cst.Assign | cst.AnnAssign | cst.Return)
            or not isinstance(line, cst.SimpleStatementLine)
            or len(line.body) > 1
            or _first(statement.value, call) is not call
        ):
            raise Unclear("a canvas within a larger expression: build a taskmq.workflow.Workflow")
        return statement

    def _free_name(self, file: PythonFile, node: cst.CSTNode) -> str:
        scope = file.resolver.scope(node)
        names = ("flow", "workflow", "flow_", "workflow_")
        for name in names:
            if scope is None or name not in scope or _holds_workflow(file, node, name):
                return name
        raise Unclear("names for a workflow are taken: build a taskmq.workflow.Workflow")


def _first(node: cst.BaseExpression | None, wanted: cst.Call) -> cst.BaseExpression | None:
    """What is evaluated first in ``wanted(…).get(…).attribute``."""
    while node is not wanted and isinstance(node, cst.Attribute | cst.Call):
        node = node.value if isinstance(node, cst.Attribute) else node.func
    return node


def _is_option(file: PythonFile, node: cst.CSTNode) -> bool:
    """Whether a call is one whose options TMQ120 looks at, or TMQ161."""
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return False
    name = node.func.attr.value
    return name == "add_periodic_task" or (
        name in {"apply_async", "signature", "subtask"} and file.is_task(node.func.value)
    )


def _holds_workflow(file: PythonFile, node: cst.CSTNode, name: str) -> bool:
    """Whether all that binds a name here is ``Workflow()``, as this rule writes it."""
    scope = file.resolver.scope(node)
    found = list(scope[name]) if scope is not None else []
    for each in found:
        name_node = getattr(each, "node", None)
        target = file.parent(name_node) if name_node is not None else None
        assign = file.parent(target) if isinstance(target, cst.AssignTarget) else None
        value = assign.value if isinstance(assign, cst.Assign) else None
        if not isinstance(value, cst.Call) or not file.is_(value.func, "taskmq.workflow.Workflow"):
            return False
    return bool(found)


RULE = Canvas()
