"""``task.apply_async(…)``: a job with options."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from taskmq_migrate.arguments import (
    Arguments,
    Parts,
    comma_separated,
    spread,
    spread_keywords,
)
from taskmq_migrate.model import Example, Page, Site, Target
from taskmq_migrate.native.options import OF_SUBMIT, options_of
from taskmq_migrate.problems import Unclear
from taskmq_migrate.pythonfile import PythonFile
from taskmq_migrate.rule import PythonRule

__all__ = ["RULE"]

PARAMETERS = ("args", "kwargs", "task_id", "producer", "link", "link_error", "shadow")
TAKEN = frozenset(
    {"queue", "eta", "expires", "timeout", "priority", "key", "headers", "connection"}
)


class ApplyAsync(PythonRule):
    id = "TMQ120"
    title = "apply_async(...) becomes submit(...)"
    targets = frozenset({Target.NATIVE})
    words = ("elery", "taskmq")
    page = Page(
        why="submit takes the arguments of the task as they are, and options beside them. Where "
        "an option has "
        "the name of an argument, or the names cannot be seen, it is call(…).options(…).submit(). "
        "delay() is the same in both.",
        risk="eta= and expires= have to be aware datetimes: a naive one is refused. Options of "
        "the connection and "
        "of publishing again (retry, retry_policy, …) go: how long the store may take is "
        "publish_timeout.",
        examples=(
            Example(
                "views.py",
                before="from shop.tasks import send\n\n"
                'send.apply_async(("a@b.org",), {"copy": True}, countdown=60, queue="mail")\n'
                "send.apply_async(args, kwargs, expires=30)\n",
                after="from shop.tasks import send\n\n"
                'send.submit("a@b.org", copy=True, eta=60, queue="mail")\n'
                "send.call(*args, **kwargs).options(expires=30).submit()\n",
                others={
                    "shop/tasks.py": "from celery import shared_task\n\n\n"
                    "@shared_task\ndef send(to, copy=False): ...\n"
                },
            ),
            Example(
                "links.py",
                before="from shop.tasks import send\n\nsend.apply_async((1,), link=send.s())\n",
                after="from shop.tasks import send\n\n"
                "# TODO(taskmq-migrate TMQ120): link: what follows a job is a node of a "
                "taskmq.workflow.Workflow\n"
                "send.apply_async((1,), link=send.s())\n",
                others={
                    "shop/tasks.py": "from celery import shared_task\n\n\n"
                    "@shared_task\ndef send(to, copy=False): ...\n"
                },
            ),
        ),
    )

    def sites(self, file: PythonFile) -> Iterator[Site]:
        for call in file.nodes(cst.Call):
            method = call.func
            if (
                isinstance(method, cst.Attribute)
                and method.attr.value == "apply_async"
                and file.is_task(method.value)
            ):
                yield self._site(file, call, method)

    def _site(self, file: PythonFile, call: cst.Call, method: cst.Attribute) -> Site:
        given = Arguments.of(call).named(*PARAMETERS)
        if given is None:
            return file.mark_at(call, "options are hidden behind * or ** or passed by position")
        positional = spread(file, given.pop("args", None)) or []
        keywords, names = spread_keywords(file, given.pop("kwargs", None))
        try:
            options = options_of(file, given)
        except Unclear as problem:
            return file.mark_at(call, str(problem))
        plain = options.keys() <= OF_SUBMIT and names is not None and not TAKEN & names
        owner = file.span(method.value)
        arguments = [*positional, *keywords]
        chosen: list[Parts] = [(f"{name}=", *value) for name, value in options.items()]
        if plain:
            parts: Parts = (owner, ".submit(", *comma_separated([*arguments, *chosen]), ")")
        else:
            parts = (owner, ".call(", *comma_separated(arguments), ")")
            if chosen:
                parts += (".options(", *comma_separated(chosen), ")")
            parts += (".submit()",)
        return file.convert_at(call, "submitted", file.replace(file.span(call), *parts))


RULE = ApplyAsync()
