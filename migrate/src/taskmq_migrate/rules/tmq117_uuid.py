"""``celery.uuid()``: an id as text, of the standard library."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from taskmq_migrate.model import Example, Page, Site, Target
from taskmq_migrate.pythonfile import PythonFile
from taskmq_migrate.rule import PythonRule

__all__ = ["RULE", "UUID"]

UUID = (
    "celery.uuid",
    "celery.utils.gen_unique_id",
    "celery.utils.uuid",
    "kombu.utils.uuid",
    "kombu.utils.uuid.uuid",
)


class Uuid(PythonRule):
    id = "TMQ117"
    title = "celery.uuid() becomes str(uuid.uuid4())"
    targets = frozenset({Target.NATIVE})
    words = ("uuid", "gen_unique_id")
    strict_words = True
    page = Page(
        why="It is a random UUID as text in Celery too, which the standard library makes. A job "
        "that is given no id gets one of the engine's, which sorts by time.",
        risk="None.",
        examples=(
            Example(
                "views.py",
                before="from celery import uuid\n\nkey = uuid()\n",
                after="from uuid import uuid4\n\nkey = str(uuid4())\n",
            ),
            Example(
                "factory.py",
                before="from celery.utils import uuid\n\nmake_id = uuid\n",
                after="from celery.utils import uuid\n\n"
                "# TODO(taskmq-migrate TMQ117): pass a function that gives str(uuid.uuid4())\n"
                "make_id = uuid\n",
            ),
        ),
    )

    def sites(self, file: PythonFile) -> Iterator[Site]:
        for node in file.references():
            if not file.is_(node, *UUID):
                continue
            call = file.parent(node)
            if not isinstance(call, cst.Call) or call.func is not node or call.args:
                yield file.mark_at(node, "pass a function that gives str(uuid.uuid4())")
                continue
            text, imports = file.import_as("uuid.uuid4", node)
            yield file.convert_at(
                call,
                "a UUID as text",
                file.replace(file.span(call), f"str({text}())"),
                imports=imports,
                released=(node,),
            )


RULE = Uuid()
