"""``chain``, ``group``, ``chord``: a workflow."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from taskmq_migrate.model import Edit, Example, NewImport, Page, Safety, Site, Span, Target
from taskmq_migrate.native.canvas import Compiler, is_canvas
from taskmq_migrate.native.launches import Launch, launch_of, statement_of
from taskmq_migrate.native.signatures import as_call, is_signature
from taskmq_migrate.problems import Unclear
from taskmq_migrate.pythonfile import PythonFile
from taskmq_migrate.rule import PythonRule

__all__ = ["RULE"]

MAP = "Workflow.map runs a task for each of some values, as a job each"
MANY = frozenset({"chunks", "map", "starmap"})
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
        "A group that is made at run time gives a list if it has several members and the "
        "result itself if it has one: where its result is used, that waits for --unsafe. So do "
        "options of a chain that is a list: Celery gives them to the first step, here "
        "all get them.",
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
                "lists.py",
                before="from celery import chain\nfrom shop.tasks import fetch\n\n\n"
                "def crawl(urls):\n    steps = []\n"
                "    for url in urls:\n        steps.append(fetch.si(url))\n"
                "    chain(steps).delay()\n",
                after="from taskmq.workflow import Workflow\nfrom shop.tasks import fetch\n\n\n"
                "def crawl(urls):\n    steps = []\n"
                "    for url in urls:\n        steps.append(fetch.call(url))\n"
                "    flow = Workflow()\n    step1 = ()\n"
                "    for call in steps:\n        step1 = flow.add(call, after=step1)\n"
                "    if flow.nodes:\n        flow.submit()\n",
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
        for method in file.nodes(cst.Attribute):
            if method.attr.value in MANY and file.is_task(method.value):
                yield file.mark_at(method, f"{method.attr.value}: {MAP}")
        found: list[cst.BaseExpression] = [*file.nodes(cst.Call)]
        found += file.nodes(cst.BinaryOperation)
        sites: list[Site] = []
        left: list[tuple[cst.BaseExpression, str]] = []
        for node in found:
            if not is_canvas(file, node) and not is_signature(file, node):
                continue
            if any(
                is_canvas(file, each) or is_signature(file, each) or _is_option(file, each)
                for each in file.ancestors(node)
            ):
                continue
            try:
                sites.append(self._site(file, node))
            except Unclear as problem:
                left.append((node, str(problem)))
        yield from sites
        taken = [edit for site in sites for edit in site.edits]
        for node, why in left:
            span = file.span(node)
            if not any(each.start <= span.start and span.end <= each.end for each in taken):
                yield file.mark_at(node, why)

    def _site(self, file: PythonFile, node: cst.BaseExpression) -> Site:
        launch = launch_of(file, node)
        if isinstance(node, cst.Call) and is_signature(file, node):
            return self._single(file, node, launch)
        if launch.variable is not None:
            return self._held(file, node, launch, launch.variable)
        (call,) = launch.calls
        statement = statement_of(file, call)
        span, start = file.span(statement), file.span(call).start
        indent = file.text[file.line_start(span.start) : span.start]
        gap = f"{file.newline}{indent}"
        compiler = Compiler(file, self._free_name(file, node), gap, launch.options)
        used = not isinstance(statement, cst.Expr) or statement.value is not call
        compiler.build(node, launch.body, used=used or launch.replaces is not None)
        flow = compiler.flow
        parts, imports = self._building(file, node, compiler, gap)
        if launch.replaces is not None:
            parts += ["return ", file.span(launch.replaces), f".request.replace({flow})"]
        elif used or not compiler.perhaps_empty:
            rest = Span(file.span(call).end, span.end)
            parts += [Span(span.start, start), f"{flow}.submit()", rest]
        else:
            parts += [f"if {flow}.nodes:", gap, f"    {flow}.submit()"]
            compiler.perhaps_empty = False
        return self._done(file, call, compiler, imports, file.replace(span, *parts))

    def _building(
        self, file: PythonFile, node: cst.CSTNode, compiler: Compiler, gap: str
    ) -> tuple[list[str | Span], tuple[NewImport, ...]]:
        workflow, imports = file.import_as("taskmq.workflow.Workflow", node)
        parts: list[str | Span] = [f"{compiler.flow} = {workflow}()", gap]
        for each in compiler.statements:
            parts += [*each, gap]
        return parts, imports

    def _done(
        self,
        file: PythonFile,
        where: cst.CSTNode,
        compiler: Compiler,
        imports: tuple[NewImport, ...],
        *edits: Edit,
    ) -> Site:
        unsure = compiler.perhaps_one or compiler.perhaps_empty or compiler.guessed
        return file.convert_at(
            where,
            "a workflow",
            *edits,
            *compiler.edits,
            imports=imports,
            released=tuple(compiler.released),
            safety=Safety.UNSAFE if unsure else None,
        )

    def _held(
        self, file: PythonFile, node: cst.BaseExpression, launch: Launch, name: cst.Name
    ) -> Site:
        """A canvas in a variable: that holds the workflow then."""
        statement = file.statement(node)
        if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) > 1:
            raise Unclear("a canvas within a line of more statements")
        span = file.span(statement)
        gap = f"{file.newline}{file.text[file.line_start(span.start) : span.start]}"
        compiler = Compiler(file, name.value, gap, launch.options)
        used = any(not isinstance(file.parent(each), cst.Expr) for each in launch.calls)
        compiler.build(node, None, used=used)
        parts, imports = self._building(file, node, compiler, gap)
        edits = [file.replace(span, *parts[:-1])]
        edits += [file.replace(file.span(each), f"{name.value}.submit()") for each in launch.calls]
        return self._done(file, node, compiler, imports, *edits)

    def _single(self, file: PythonFile, node: cst.Call, launch: Launch) -> Site:
        """One signature: a call of its task."""
        if launch.replaces is not None:
            (call,) = launch.calls
            statement = statement_of(file, call)
            parts = ("return ", file.span(launch.replaces), ".request.replace(")
            edit = file.replace(file.span(statement), *parts, *as_call(file, node), ")")
            return file.convert_at(node, "a call of its task", edit)
        if launch.variable is None:
            made = as_call(file, node, launch.options)
            edit = file.replace(file.span(launch.calls[0]), *made, ".submit()")
            return file.convert_at(node, "a call of its task", edit)
        edits = [file.replace(file.whole(node), *as_call(file, node, launch.options))]
        name = launch.variable.value
        edits += [file.replace(file.span(each), f"{name}.submit()") for each in launch.calls]
        return file.convert_at(node, "a call of its task", *edits)

    def _free_name(self, file: PythonFile, node: cst.CSTNode) -> str:
        scope = file.resolver.scope(node)
        names = ("flow", "workflow", "flow_", "workflow_")
        for name in names:
            if scope is None or name not in scope or _holds_workflow(file, node, name):
                return name
        raise Unclear("names for a workflow are taken: build a taskmq.workflow.Workflow")


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
