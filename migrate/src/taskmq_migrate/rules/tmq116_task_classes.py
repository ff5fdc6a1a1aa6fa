"""Classes derived from ``celery.Task``: hooks, options, and what is around a task."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from taskmq_migrate.arguments import comma_separated, is_literal
from taskmq_migrate.model import Edit, Example, NewImport, Page, Safety, Site, Target
from taskmq_migrate.native.retrying import OPTIONS as RETRY_OPTIONS
from taskmq_migrate.native.retrying import policy_of
from taskmq_migrate.native.taskclasses import (
    ENGINE,
    bases,
    is_base,
    methods,
    policy_options,
    task_classes,
)
from taskmq_migrate.native.taskhooks import HOOKS, hook_edits, is_super
from taskmq_migrate.native.taskoptions import DROPPED, RENAMED
from taskmq_migrate.problems import Unclear
from taskmq_migrate.pythonfile import PythonFile
from taskmq_migrate.rule import PythonRule

__all__ = ["RULE"]

AROUND = "__call__"
SUBMITS = "jobs come from delay(), submit() and workflows alike: do it where the task is called"
WHY_NOT = {
    "__init__": "the engine makes one task for each function: use class attributes, or "
    "functools.cached_property",
    "apply": "Config(eager=True) runs jobs where they are submitted",
    "apply_async": SUBMITS,
    "delay": SUBMITS,
    "on_bound": "a task belongs to its app when that registers it: override bind(app)",
    "retry": "retries are what the policy says: retry = Retry(…)",
    "send_events": "app.add_sink(…) is told of every event",
    "shadow_name": "jobs bear the name of their task",
    "update_state": "a job has no states of a program's own",
}


class TaskClasses(PythonRule):
    id = "TMQ116"
    title = "classes derived from celery.Task become classes of the engine's Task"
    targets = frozenset({Target.NATIVE})
    words = ("elery", "taskmq")
    page = Page(
        why="The engine's Task has the same hooks, and base= of its decorators takes such a class. "
        "A hook is given the context of the job and what it tells of: ctx.id, ctx.arguments. What "
        "__call__ put around a task is in run(), whose super().run(…) is the function.",
        risk="on_retry of a retry that the task asked for is told None where that names no "
        "exception: where it looks at that, it waits for --unsafe. A hook that raises is logged "
        "and changes nothing.",
        examples=(
            Example(
                "base.py",
                before="from celery import Task\n\n\n"
                "class Watched(Task):\n    abstract = True\n    ignore_result = True\n\n"
                "    def __call__(self, *args, **kwargs):\n        with span(self.name):\n"
                "            return super().__call__(*args, **kwargs)\n\n"
                "    def on_failure(self, exc, task_id, args, kwargs, einfo):\n"
                '        report(f"{task_id} of {args[0]}", exc)\n'
                "        super().on_failure(exc, task_id, args, kwargs, einfo)\n",
                after="import taskmq\n\n\n"
                "class Watched(taskmq.Task):\n    store_result = False\n\n"
                "    def run(self, *args, **kwargs):\n        with span(self.name):\n"
                "            return super().run(*args, **kwargs)\n\n"
                "    def on_failure(self, ctx, exc):\n"
                "        args = ctx.arguments[0]\n"
                '        report(f"{ctx.id} of {args[0]}", exc)\n'
                "        super().on_failure(ctx, exc)\n",
            ),
            Example(
                "later.py",
                before="from shop.base import Committed\n\n\n"
                "class Later(Committed):\n    max_retries = 5\n\n"
                "    def apply_async(self, *args, **kwargs):\n        return None\n",
                after="from shop.base import Committed\nfrom taskmq import Retry\n\n\n"
                "class Later(Committed):\n"
                '    retry = Retry(max_attempts=6, backoff="fixed", base=180, jitter=False, '
                "retry_on=())\n\n"
                "    # TODO(taskmq-migrate TMQ116): apply_async: jobs come from delay(), submit() "
                "and workflows alike: do it where the task is called\n"
                "    def apply_async(self, *args, **kwargs):\n        return None\n",
                others={
                    "shop/base.py": "from celery import Task\n\n\nclass Committed(Task):\n"
                    '    queue = "late"\n'
                },
            ),
        ),
    )

    def sites(self, file: PythonFile) -> Iterator[Site]:
        for node in task_classes(file):
            for each in bases(node):
                if is_base(file, each):
                    yield self._base(file, each)
            yield from self._options(file, node)
            for function, _ in methods(node):
                name = function.name.value
                try:
                    if name in HOOKS:
                        yield from self._hook(file, function)
                    elif name == AROUND:
                        yield self._around(file, node, function)
                    elif name in WHY_NOT:
                        raise Unclear(f"{name}: {WHY_NOT[name]}")
                except Unclear as problem:
                    yield file.mark_at(function, str(problem))

    def _base(self, file: PythonFile, node: cst.BaseExpression) -> Site:
        text, imports = file.import_as(ENGINE, node)
        if imports and imports[0].alias:
            text, imports = ENGINE, (NewImport("taskmq"),)
        shared = any(each.startswith("celery.") for each in file.resolver.raw(node))
        return file.convert_at(
            node,
            "a class of the engine's tasks",
            file.replace(file.span(node), text),
            imports=imports,
            released=(node,) if shared else (),
        )

    def _hook(self, file: PythonFile, function: cst.FunctionDef) -> Iterator[Site]:
        made = hook_edits(file, function)
        if made is not None:
            yield file.convert_at(
                function,
                "a hook of the engine's",
                *made.edits,
                imports=made.imports,
                safety=Safety.UNSAFE if made.guessed else None,
            )

    def _around(self, file: PythonFile, node: cst.ClassDef, function: cst.FunctionDef) -> Site:
        own = {each.name.value for each, _ in methods(node)}
        inside = file.span(function)
        inner = [
            each
            for each in file.nodes(cst.Attribute)
            if inside.start <= file.span(each).start < inside.end and _is_task_itself(each)
        ]
        if "run" in own or not inner:
            raise Unclear("__call__: run() is what is called; put around it what has to be there")
        return file.convert_at(
            function,
            "what is around a task",
            file.replace(file.span(function.name), "run"),
            *(file.replace(file.span(each), "super().run") for each in inner),
        )

    # ----------------------------------------------------------------------------- options

    def _options(self, file: PythonFile, node: cst.ClassDef) -> Iterator[Site]:
        lines = [each for each in node.body.body if isinstance(each, cst.SimpleStatementLine)]
        gone: list[cst.SimpleStatementLine] = []
        retrying: dict[str, tuple[cst.SimpleStatementLine, cst.BaseExpression]] = {}
        for line in lines:
            name, value = _bound(line)
            if value is None:
                continue
            if name in DROPPED or name == "abstract" or (name, _code(value)) in _AS_IT_IS:
                gone.append(line)
                continue
            if name in RETRY_OPTIONS:
                retrying[name] = (line, value)
                continue
            try:
                edit = _option(file, name, line, value)
            except Unclear as problem:
                yield file.mark_at(line, str(problem))
                continue
            if edit is not None:
                yield file.convert_at(line, "a policy of the class", edit)
        if retrying:
            yield self._policy(file, node, retrying)
        if not gone:
            return
        empty = len(gone) == len(node.body.body)
        edits = [file.replace(file.lines_of(each)) for each in gone[1 if empty else 0 :]]
        if empty:
            edits.append(file.replace(file.span(gone[0].body[0]), "pass"))
        yield file.convert_at(gone[0], "options that the engine has no use for", *edits)

    def _policy(
        self,
        file: PythonFile,
        node: cst.ClassDef,
        given: dict[str, tuple[cst.SimpleStatementLine, cst.BaseExpression]],
    ) -> Site:
        """One policy in place of all that a class says of retries."""
        first, *others = [line for line, _ in given.values()]
        text, imports = file.import_as("taskmq.Retry", first)
        try:
            if any(policy_options(file, each) for each in bases(node)):
                raise Unclear("a class that it derives from has some too: write retry = Retry(…)")
            policy = policy_of(file, {name: value for name, (_, value) in given.items()}, True)
        except Unclear as problem:
            return file.mark_at(first, f"{', '.join(given)}: {problem}")
        parts = comma_separated(policy.parts if policy is not None else [])
        return file.convert_at(
            first,
            "a policy of the class",
            file.replace(file.span(first.body[0]), f"retry = {text}(", *parts, ")"),
            *(file.replace(file.lines_of(each)) for each in others),
            imports=imports,
        )


_AS_IT_IS = frozenset({("acks_late", "True"), ("ignore_result", "False"), ("rate_limit", "None")})


def _bound(line: cst.SimpleStatementLine) -> tuple[str, cst.BaseExpression | None]:
    """The one name that a line of a class binds, and the value."""
    (statement,) = line.body if len(line.body) == 1 else (None,)
    if isinstance(statement, cst.Assign) and len(statement.targets) == 1:
        target: cst.BaseExpression = statement.targets[0].target
    elif isinstance(statement, cst.AnnAssign):
        target = statement.target
    else:
        return "", None
    return (target.value, statement.value) if isinstance(target, cst.Name) else ("", None)


def _code(value: cst.BaseExpression) -> str:
    return value.value if isinstance(value, cst.Name) else ""


def _option(
    file: PythonFile, name: str, line: cst.SimpleStatementLine, value: cst.BaseExpression
) -> Edit | None:
    """A policy of the engine's in place of one of Celery's. Raises `Unclear`."""
    span = file.span(line.body[0])
    if name in RENAMED:
        return file.replace(span, f"{RENAMED[name]} = ", file.whole(value))
    if name == "ignore_result" and is_literal(value, "True"):
        return file.replace(span, "store_result = False")
    if name == "acks_late" and is_literal(value, "False"):
        return file.replace(span, 'ack = "on_receipt"')
    if name in ("ignore_result", "acks_late", "serializer"):
        raise Unclear(f"{name}: the engine has no such option, or not with this value")
    return None


def _is_task_itself(node: cst.Attribute) -> bool:
    """Whether an attribute is what ``__call__`` of a class calls in the end."""
    if node.attr.value == AROUND:
        return is_super(node.value)
    return (
        node.attr.value == "run" and isinstance(node.value, cst.Name) and node.value.value == "self"
    )


RULE = TaskClasses()
