"""``@app.task(…)`` and ``@shared_task``: the decorator and its options."""

from __future__ import annotations

import json
from collections.abc import Iterator

import libcst as cst

from taskmq_migrate.arguments import Arguments, Part, Parts, comma_separated, is_literal
from taskmq_migrate.model import Example, NewImport, Page, Site, Target
from taskmq_migrate.names import literal_text
from taskmq_migrate.native.bodies import tasks_that_ask_for_retry
from taskmq_migrate.native.priorities import priority_of
from taskmq_migrate.native.retrying import OPTIONS as RETRY_OPTIONS
from taskmq_migrate.native.retrying import policy_of
from taskmq_migrate.native.taskclasses import is_known_base, policy_options
from taskmq_migrate.native.taskoptions import DROPPED, NATIVE, RENAMED, SAME
from taskmq_migrate.problems import Unclear
from taskmq_migrate.pythonfile import PythonFile
from taskmq_migrate.rule import PythonRule

__all__ = ["RULE"]

WHY_NOT = {
    "base": "its class is not seen here: the engine wants one that is derived from taskmq.Task",
    "exchange": "there are no exchanges: queue= says where jobs go",
    "routing_key": "there are no routing keys: queue= says where jobs go",
    "pydantic": "annotate the parameters: arguments are converted to msgspec and pydantic types",
}


class TaskOptions(PythonRule):
    id = "TMQ110"
    title = "task decorators and their options become those of the engine"
    targets = frozenset({Target.NATIVE})
    words = ("elery", "taskmq", "task_routes", "CELERY_ROUTES", "CELERY_TASK_ROUTES")
    page = Page(
        why="The engine's @app.task and @task take policies: one Retry in place of eight options, "
        "timeouts by what they do, acknowledgement by what it promises.",
        risk="Jobs run at least once: without acks_late Celery lost them with their worker, here "
        "they run again "
        '(acks_late=False stays what it was: ack="on_receipt"). Random delays are half to one and '
        "a half "
        "times the delay, Celery's were between nothing and the delay. time_limit kills in the "
        "processes pool only.",
        examples=(
            Example(
                "tasks.py",
                before="from celery import shared_task\n\n\n"
                "@shared_task(autoretry_for=(OSError,), retry_backoff=2, max_retries=5)\n"
                "def fetch(url): ...\n",
                after="from taskmq import Retry, task\n\n\n"
                "@task(retry=Retry(max_attempts=6, base=2, retry_on=(OSError,)))\n"
                "def fetch(url): ...\n",
            ),
            Example(
                "mail.py",
                before="from shop.app import app\n\n\n"
                '@app.task(bind=True, queue="mail", ignore_result=True, acks_late=True, '
                "soft_time_limit=30)\n"
                "def send(self, to): ...\n",
                after="from shop.app import app\n\n\n"
                '@app.task(bind=True, queue="mail", store_result=False, timeout=30)\n'
                "def send(self, to): ...\n",
                others={"shop/app.py": 'from celery import Celery\n\napp = Celery("shop")\n'},
            ),
            Example(
                "orders.py",
                before="from celery import shared_task\nfrom shop.base import Watched\n\n\n"
                '@shared_task(base=Watched, name="pay")\ndef pay(order): ...\n',
                after="from taskmq import task\nfrom shop.base import Watched\n\n\n"
                '@task(base=Watched, name="pay")\ndef pay(order): ...\n',
                others={"shop/base.py": "from celery import Task\n\n\nclass Watched(Task): ...\n"},
            ),
            Example(
                "mails.py",
                before="from celery import shared_task\n\n\n@shared_task\ndef send(to): ...\n",
                after='from taskmq import task\n\n\n@task(queue="mail")\ndef send(to): ...\n',
                others={"celeryconfig.py": 'task_routes = {"mails.*": {"queue": "mail"}}\n'},
            ),
            Example(
                "old.py",
                before="from celery import shared_task\n\n\n"
                '@shared_task(routing_key="fast")\ndef ping(): ...\n',
                after="from celery import shared_task\n\n\n"
                "# TODO(taskmq-migrate TMQ110): routing_key: there are no routing keys: queue= "
                "says where jobs go\n"
                '@shared_task(routing_key="fast")\ndef ping(): ...\n',
            ),
        ),
    )

    def sites(self, file: PythonFile) -> Iterator[Site]:
        asking = tasks_that_ask_for_retry(file)
        for function in file.nodes(cst.FunctionDef):
            for each in function.decorators:
                call = each.decorator if isinstance(each.decorator, cst.Call) else None
                name = call.func if call is not None else each.decorator
                if file.is_task_decorator(name):
                    site = self._decorator(file, name, call, function, function in asking)
                    if site is not None:
                        yield site

    def _decorator(
        self,
        file: PythonFile,
        name: cst.BaseExpression,
        call: cst.Call | None,
        function: cst.FunctionDef,
        asks_for_retry: bool,
    ) -> Site | None:
        where = call if call is not None else name
        arguments = Arguments.of(call) if call is not None else Arguments((), {}, False)
        if arguments.positional or arguments.open:
            return file.mark_at(where, "options are hidden behind * or ** or passed by position")
        try:
            options, imports = self._options(file, name, arguments.keywords, asks_for_retry)
        except Unclear as problem:
            return file.mark_at(where, str(problem))
        queue = _routed(file, function, arguments.keywords)
        if queue is not None:
            options.append((f"queue={json.dumps(queue)}",))
        shared = any(each == "celery.shared_task" for each in file.names(name))
        text: Part = file.whole(name)
        if shared:
            text, more = file.import_as("taskmq.task", name)
            imports += more
        if not shared and not imports and not queue and _is_done(file, arguments.keywords):
            return None
        shown = ("(", *comma_separated(options), ")") if options else ()
        return file.convert_at(
            where,
            "options of the engine",
            file.replace(file.span(where), text, *shown),
            imports=imports,
            released=(name,) if shared else (),
        )

    def _options(
        self,
        file: PythonFile,
        at: cst.CSTNode,
        given: dict[str, cst.BaseExpression],
        asks_for_retry: bool,
    ) -> tuple[list[Parts], tuple[NewImport, ...]]:
        imports: tuple[NewImport, ...] = ()
        found: list[Parts] = []
        for name, value in given.items():
            if name in SAME or name in NATIVE or (name == "base" and is_known_base(file, value)):
                found.append((f"{name}=", file.whole(value)))
            elif name in RENAMED:
                found.append((f"{RENAMED[name]}=", file.whole(value)))
            elif name == "rate_limit" and "rate_scope" in given:
                found.append(("rate_limit=", file.whole(value)))
            elif name not in DROPPED and name not in RETRY_OPTIONS:
                found += self._special(file, name, value)
        policy = None
        own = given.keys() & RETRY_OPTIONS
        inherited = policy_options(file, given["base"]) if "base" in given else frozenset()
        if own and not inherited <= own:
            # A decorator's options add to those of a base; a policy takes their place.
            raise Unclear("the base has options of retries too: write one retry=Retry(…)")
        if "retry" not in given and (own or not inherited):
            policy = policy_of(file, given, asks_for_retry)
        if policy is not None:
            text, imports = file.import_as("taskmq.Retry", at)
            found.append((f"retry={text}(", *comma_separated(policy.parts), ")"))
        return found, imports

    def _special(self, file: PythonFile, name: str, value: cst.BaseExpression) -> list[Parts]:
        if name == "acks_late" and is_literal(value, "True", "False"):
            return [] if is_literal(value, "True") else [('ack="on_receipt"',)]
        if name == "ignore_result":
            if is_literal(value, "True", "False"):
                return [("store_result=False",)] if is_literal(value, "True") else []
            return [("store_result=not ", file.whole(value))]
        if name == "rate_limit" and not is_literal(value, "None"):
            return [("rate_limit=", file.whole(value)), ('rate_scope="worker"',)]
        if name == "priority":
            return [("priority=", *priority_of(file, value))]
        if name == "serializer" and literal_text(value) == "json":
            return []
        why = WHY_NOT.get(name, "the engine has no such option, or not with this value")
        raise Unclear(f"{name}: {why}")


def _routed(
    file: PythonFile, function: cst.FunctionDef, given: dict[str, cst.BaseExpression]
) -> str | None:
    """The queue that routes name for a task, which has none of its own."""
    if "queue" in given or file.enclosing(function, cst.FunctionDef) is not None:
        return None
    return file.facts.queue_of(file.path, function.name.value)


def _is_done(file: PythonFile, given: dict[str, cst.BaseExpression]) -> bool:
    """Whether the engine takes these options as they are."""
    if "priority" in given and len(priority_of(file, given["priority"])) > 1:
        return False
    if "rate_limit" in given and "rate_scope" not in given:
        return False
    if "base" in given and not is_known_base(file, given["base"]):
        return False
    return given.keys() <= SAME | NATIVE | {"base", "priority", "rate_limit"}


RULE = TaskOptions()
