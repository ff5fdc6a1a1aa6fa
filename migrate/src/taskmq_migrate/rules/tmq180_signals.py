"""``@worker_ready.connect``: what is done when a worker or its process starts and ends."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from taskmq_migrate.model import Edit, Example, Page, Site, Span, Target
from taskmq_migrate.pythonfile import PythonFile
from taskmq_migrate.rule import PythonRule

__all__ = ["RULE"]

# Signals of a worker, and the method of WorkerHook that is called at the same moment.
HOOKS = {
    "celery.signals.worker_init": ("on_start", "worker"),
    "celery.signals.worker_process_init": ("on_child_start", "app"),
    "celery.signals.worker_process_shutdown": ("on_child_stop", "app"),
    "celery.signals.worker_ready": ("on_ready", "worker"),
    "celery.signals.worker_shutdown": ("on_stop", "worker, report"),
}
NO_MATTER = frozenset({"dispatch_uid", "weak"})  # arguments of connect() that hooks do not need


class Signals(PythonRule):
    id = "TMQ180"
    title = "handlers of signals about a worker's life become hooks"
    targets = frozenset({Target.NATIVE})
    words = ("celery.signals", "import signals")
    strict_words = True
    page = Page(
        why="A WorkerHook has a method for each step in the life of a worker and of its processes, "
        "and app.add_hook() takes it. The function stays, and the hook calls it: that is right for "
        "handlers that look at none of their arguments, in a module that has the app above them. "
        "All other handlers keep their signal, whose import is marked by TMQ190.",
        risk="A hook that raises is logged, as a handler is. on_child_start is called with every "
        "pool, in the thread or process that runs jobs; worker_process_init was sent where there "
        "are processes.",
        examples=(
            Example(
                "shop/app.py",
                before="from celery import Celery\nfrom celery.signals import "
                'worker_process_init\n\napp = Celery("shop")\n\n\n'
                "@worker_process_init.connect\ndef drop_connections(**kwargs):\n"
                "    engine.dispose()\n\n\nprint(app)\n",
                after="from celery import Celery\nfrom taskmq.hooks import WorkerHook\n\n"
                'app = Celery("shop")\n\n\n'
                "def drop_connections(**kwargs):\n    engine.dispose()\n\n\n"
                "class DropConnectionsHook(WorkerHook):\n"
                "    def on_child_start(self, app):\n        drop_connections()\n\n\n"
                "app.add_hook(DropConnectionsHook())\n\n\nprint(app)\n",
            ),
            Example(
                "shop/names.py",
                before="from celery import signals\nfrom shop.app import app\n\n\n"
                "@signals.worker_ready.connect\ndef tell(sender, **kwargs):\n"
                "    print(sender.hostname)\n",
                after="from celery import signals\nfrom shop.app import app\n\n\n"
                "@signals.worker_ready.connect\ndef tell(sender, **kwargs):\n"
                "    print(sender.hostname)\n",
                others={"shop/app.py": "from celery import Celery\n\napp = Celery()\n"},
            ),
        ),
    )

    def sites(self, file: PythonFile) -> Iterator[Site]:
        for function in file.nodes(cst.FunctionDef):
            for each in function.decorators:
                signal = _signal_of(file, each.decorator)
                site = self._site(file, function, each, signal) if signal is not None else None
                if site is not None:
                    yield site

    def _site(
        self,
        file: PythonFile,
        function: cst.FunctionDef,
        decorator: cst.Decorator,
        signal: cst.BaseExpression,
    ) -> Site | None:
        (name,) = file.names(signal)
        arguments = _unused(file, function)
        app = _app_above(file, function)
        made = f"{function.name.value.title().replace('_', '')}Hook"
        if arguments is None or app is None or made in file.global_scope:
            return None
        method, given = HOOKS[name]
        base, imports = file.import_as("taskmq.hooks.WorkerHook", signal)
        end = file.newline
        hook = (
            f"{end * 3}class {made}({base}):{end}"
            f"    def {method}(self, {given}):{end}"
            f"        {function.name.value}({arguments}){end * 3}"
            f"{app}.add_hook({made}())"
        )
        return file.convert_at(
            decorator.decorator,
            f"{name.rpartition('.')[2]} is {method} of a hook",
            _without(file, decorator),
            file.insert(file.span(function).end, hook),
            imports=imports,
            released=(signal,),
        )


def _signal_of(file: PythonFile, decorator: cst.BaseExpression) -> cst.BaseExpression | None:
    """The signal that a decorator connects a function with, if there is a hook for it."""
    connect = decorator
    if isinstance(decorator, cst.Call):
        connect = decorator.func
        if any(
            each.keyword is None or each.keyword.value not in NO_MATTER for each in decorator.args
        ):
            return None
    if not isinstance(connect, cst.Attribute) or connect.attr.value != "connect":
        return None
    return connect.value if file.is_(connect.value, *HOOKS) else None


def _unused(file: PythonFile, function: cst.FunctionDef) -> str | None:
    """How to call a handler at the top level that uses none of its arguments; None for others."""
    if function.asynchronous is not None or not isinstance(file.parent(function), cst.Module):
        return None
    params = function.params
    stars = [each for each in (params.star_arg, params.star_kwarg) if isinstance(each, cst.Param)]
    plain = [*params.posonly_params, *params.params, *params.kwonly_params]
    names = {each.name.value for each in (*plain, *stars)}
    inside = file.span(function.body)
    for node in file.nodes(cst.Name):
        place = file.span(node)
        if node.value in names | {"locals"} and inside.start <= place.start < inside.end:
            return None
    return ", ".join(f"{each.name.value}=None" for each in plain if each.default is None)


def _app_above(file: PythonFile, function: cst.FunctionDef) -> str | None:
    """A name that the module binds above a function, and that stands for the app."""
    start = file.span(function).start
    module = file.facts.modules.get(file.path)
    for each in file.global_scope.assignments if module is not None else ():
        node = each.node
        if node is None or file.span(node).start >= start or len(file.global_scope[each.name]) > 1:
            continue
        full = file.resolver.full_name(each, each.name)
        if file.facts.is_app(full, file.path) and not full.startswith("celery."):
            return each.name
    return None


def _without(file: PythonFile, decorator: cst.Decorator) -> Edit:
    """Take the lines of a decorator out."""
    span = file.span(decorator.decorator)
    end = next((each for each in file.line_starts if each >= span.end), len(file.text))
    return file.replace(Span(file.line_start(span.start), end))


RULE = Signals()
