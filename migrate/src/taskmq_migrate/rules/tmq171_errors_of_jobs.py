"""Tests that expect the exception of a failed job."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from taskmq_migrate.arguments import Arguments, Parts
from taskmq_migrate.model import Edit, Example, Page, Safety, Site, Target
from taskmq_migrate.names import dotted, literal_text
from taskmq_migrate.native.handles import is_handle
from taskmq_migrate.problems import Unclear
from taskmq_migrate.pythonfile import PythonFile
from taskmq_migrate.rule import PythonRule

__all__ = ["RULE"]

ANY = frozenset({"Exception", "BaseException"})
CALLS = frozenset({"delay", "apply_async", "submit", "apply"})
TASKS = (
    "from celery import shared_task\n\n\n@shared_task\ndef send(to):\n    raise ValueError(to)\n"
)


class ErrorsOfJobs(PythonRule):
    id = "TMQ171"
    title = "tests expect RemoteError of a job that failed"
    safety = Safety.UNSAFE
    targets = frozenset({Target.NATIVE})
    words = ("elery", "taskmq", "pytest.raises", "assertRaises")
    page = Page(
        why="get() of a job that failed raises RemoteError, whose text begins with the name of the "
        "exception and its message: exceptions are stored as text. delay() raises nothing of the "
        "job's, as it did with task_eager_propagates.",
        risk="The name of the class is looked for in that text: a class derived from the expected "
        "one has another name. What is asked of the caught exception later is marked.",
        examples=(
            Example(
                "test_send.py",
                before="import pytest\nfrom shop.tasks import send\n\n\n"
                "def test_send():\n"
                '    with pytest.raises(ValueError, match="nobody"):\n'
                '        send.delay("nobody").get()\n'
                "    with pytest.raises(ValueError):\n"
                '        send.delay("nobody")\n',
                after="import pytest\nfrom shop.tasks import send\n"
                "from taskmq.errors import RemoteError\n\n\n"
                "def test_send():\n"
                '    with pytest.raises(RemoteError, match="ValueError.*nobody"):\n'
                '        send.delay("nobody").get()\n'
                '    with pytest.raises(RemoteError, match="ValueError"):\n'
                '        send.delay("nobody").get()\n',
                others={"shop/tasks.py": TASKS},
            ),
            Example(
                "test_case.py",
                before="from unittest import TestCase\n\nfrom shop.tasks import send\n\n\n"
                "class Send(TestCase):\n    def test(self):\n"
                "        with self.assertRaises(ValueError) as caught:\n"
                '            send.delay("nobody").get()\n'
                '        assert caught.exception.args == ("nobody",)\n',
                after="from unittest import TestCase\n\nfrom shop.tasks import send\n\n\n"
                "class Send(TestCase):\n    def test(self):\n"
                "        # TODO(taskmq-migrate TMQ171): get() raises taskmq.errors.RemoteError, "
                "which has the type and the message of the exception as text\n"
                "        with self.assertRaises(ValueError) as caught:\n"
                '            send.delay("nobody").get()\n'
                '        assert caught.exception.args == ("nobody",)\n',
                others={"shop/tasks.py": TASKS},
            ),
        ),
    )

    def sites(self, file: PythonFile) -> Iterator[Site]:
        for block in file.nodes(cst.With):
            for item in block.items:
                call = item.item
                if not isinstance(call, cst.Call):
                    continue
                asked = _asked(file, block)
                if asked is not None:
                    yield from self._expectation(file, call, item, asked)

    def _expectation(
        self, file: PythonFile, call: cst.Call, item: cst.WithItem, asked: cst.Call
    ) -> Iterator[Site]:
        of_pytest = file.is_(call.func, "pytest.raises")
        if not of_pytest and not _is_assertion(call.func):
            return
        given = Arguments.of(call)
        if not given.positional or _is_of_queue(file, given.positional[0]):
            return
        try:
            if item.asname is not None:
                raise Unclear(
                    "get() raises taskmq.errors.RemoteError, which has the type and the message of "
                    "the exception as text"
                )
            error, imports = file.import_as("taskmq.errors.RemoteError", call)
            text = _pattern(file, given)
            if of_pytest:
                rest = f", match={text}" if text else ""
                parts: Parts = (file.span(call.func), f"({error}{rest})")
            else:
                method = "assertRaisesRegex" if text else "assertRaises"
                rest = f", {text}" if text else ""
                parts = (f"self.{method}({error}{rest})",)
        except Unclear as problem:
            yield file.mark_at(call, str(problem))
            return
        edits: list[Edit] = [file.replace(file.span(call), *parts)]
        if not _waits(asked):
            edits.append(file.insert(file.span(asked).end, ".get()"))
        yield file.convert_at(
            call,
            "the error of a job",
            *edits,
            imports=imports,
            released=(given.positional[0],),
        )


def _asked(file: PythonFile, block: cst.With) -> cst.Call | None:
    """The call in the only statement of a block that waits for a job, or makes one."""
    if not isinstance(block.body, cst.IndentedBlock) or len(block.body.body) != 1:
        return None
    line = block.body.body[0]
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
        return None
    statement = line.body[0]
    value = statement.value if isinstance(statement, cst.Expr | cst.Assign) else None
    if not isinstance(value, cst.Call) or not isinstance(value.func, cst.Attribute):
        return None
    if _waits(value) and is_handle(file, value.func.value):
        return value
    made = value.func.attr.value in CALLS and file.is_task(value.func.value)
    return value if made and isinstance(statement, cst.Expr) else None


def _waits(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value == "get"


def _is_assertion(func: cst.BaseExpression) -> bool:
    """``self.assertRaises``, ``self.assertRaisesRegex``."""
    return dotted(func) in {"self.assertRaises", "self.assertRaisesRegex"}


def _is_of_queue(file: PythonFile, error: cst.BaseExpression) -> bool:
    """Whether an exception is Celery's or the engine's: of waiting, not of the job."""
    return any(
        each.partition(".")[0] in {"celery", "taskmq", "kombu"} for each in file.names(error)
    )


def _pattern(file: PythonFile, given: Arguments) -> str:
    """What the text of the error is to match; empty if anything does. Raises `Unclear`."""
    if given.open or len(given.positional) > 2 or not given.keywords.keys() <= {"match"}:
        raise Unclear("get() raises taskmq.errors.RemoteError: what is expected cannot be seen")
    name = dotted(given.positional[0]).rpartition(".")[2]
    if not name:
        raise Unclear("get() raises taskmq.errors.RemoteError: expect the name of one exception")
    wanted = given.keywords.get("match", given.positional[1] if given.positional[1:] else None)
    start = "" if name in ANY else name
    if wanted is None:
        return f'"{start}"' if start else ""
    text = literal_text(wanted)
    if not isinstance(wanted, cst.SimpleString) or text is None or "b" in wanted.prefix.lower():
        raise Unclear("get() raises taskmq.errors.RemoteError: its text begins with the type")
    inner = wanted.raw_value.removeprefix("^")
    return f"{wanted.prefix}{wanted.quote}{start}{'.*' if start else ''}{inner}{wanted.quote}"


RULE = ErrorsOfJobs()
