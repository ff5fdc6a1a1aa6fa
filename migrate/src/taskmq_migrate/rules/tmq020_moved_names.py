"""Names of ``celery.task``, ``celery.decorators``, ``kombu.five`` and the like, which moved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from taskmq_migrate.model import Edit, Example, NewImport, Page, Site
from taskmq_migrate.movednames import MODULES, NAMES, moved_to
from taskmq_migrate.names import dotted, root_name
from taskmq_migrate.pythonfile import PythonFile
from taskmq_migrate.rule import PythonRule

__all__ = ["RULE"]

OLD_MODULES = frozenset(MODULES) | {each.rpartition(".")[0] for each in NAMES}


class MovedNames(PythonRule):
    id = "TMQ020"
    title = "names that Celery 5 and kombu 5 have elsewhere are imported from there"
    words = tuple(
        sorted({*OLD_MODULES, "from celery import", "_nodename", "host_format"} - {"celery.utils"})
    )
    strict_words = True
    page = Page(
        why="Celery 5 removed celery.task, celery.decorators, celery.utils.encoding, kombu.five "
        "and others; the shim does not have them either. What they held is imported from where it "
        "is now. Decorators become shared_task, whose options are the same.",
        risk="None for programs that run on Celery 4 or 5.",
        examples=(
            Example(
                "tasks.py",
                before="from celery.task import task\n\n\n@task(ignore_result=True)\n"
                "def add(x, y):\n    return x + y\n",
                after="from celery import shared_task\n\n\n@shared_task(ignore_result=True)\n"
                "def add(x, y):\n    return x + y\n",
            ),
            Example(
                "control.py",
                before="from celery.task.control import revoke\nfrom kombu.five import range\n\n\n"
                "def stop(ids):\n    for number in range(len(ids)):\n"
                "        revoke(ids[number])\n",
                after="from celery import current_app\n\n\ndef stop(ids):\n"
                "    for number in range(len(ids)):\n"
                "        current_app.control.revoke(ids[number])\n",
            ),
        ),
    )

    def sites(self, file: PythonFile) -> Iterator[Site]:
        for statement in file.nodes(cst.ImportFrom):
            if not isinstance(statement.names, cst.ImportStar):
                yield from self._statement(file, statement, statement.names)
        for reference in file.references():
            yield from self._reference(file, reference)
        for plain in file.nodes(cst.Import):
            yield from self._plain(file, plain)

    def _statement(
        self, file: PythonFile, statement: cst.ImportFrom, aliases: Sequence[cst.ImportAlias]
    ) -> Iterator[Site]:
        """An import of names that keep their short name, or that nothing here refers to."""
        module = file.resolver.imported_module(statement)
        new = {id(each): moved_to(f"{module}.{dotted(each.name)}") for each in aliases}
        if all(new.values()) and module in MODULES and statement.module is not None:
            edit = file.swap(statement.module, MODULES[module])
            yield file.convert_at(statement, f"{module} is now {MODULES[module]}", edit)
            return
        kept = [each for each in aliases if self._keeps_name(file, each, new[id(each)])]
        if not kept or not all(new.values()):
            return
        lines = [_new_import(each, new[id(each)] or "").statement() for each in kept]
        rest = [each for each in aliases if each not in kept]
        if rest:
            lines.append(f"from {module} import {', '.join(file.code(each) for each in rest)}")
        indent = " " * (file.position(file.span(statement).start)[1] - 1)
        text = f"{file.newline}{indent}".join(lines)
        yield file.convert_at(statement, f"names of {module} moved", file.swap(statement, text))

    def _keeps_name(self, file: PythonFile, alias: cst.ImportAlias, new: str | None) -> bool:
        if new is None or ":" in new or new.startswith("builtins."):
            return False
        bound = alias.asname.name if alias.asname is not None else alias.name
        if alias.asname is not None or new.rpartition(".")[2] == dotted(bound):
            return True
        scope = file.global_scope
        return not any(each.references for each in scope[dotted(bound)])

    def _reference(self, file: PythonFile, node: cst.Name | cst.Attribute) -> Iterator[Site]:
        """A use: a name that changes, or an attribute of a module that is gone."""
        names = file.names(node)
        old = next(iter(names)) if len(names) == 1 else ""
        new = moved_to(old)
        if old == "celery.task" and _makes_a_task(file, node):
            new = "celery.shared_task"
        if new is None or (isinstance(node, cst.Name) and self._stays(file, node, new)):
            return
        text, imports = _written(file, new, node)
        edits: list[Edit] = [file.swap(node, text)]
        message = f"{old} is now {new.replace(':', '.').removeprefix('builtins.')}"
        yield file.convert_at(node, message, *edits, imports=imports, released=(node,))

    def _stays(self, file: PythonFile, node: cst.Name, new: str) -> bool:
        """Whether an import that `_statement` rewrites goes on binding this name."""
        for assignment in file.resolver.assignments(node):
            statement = assignment.node
            if isinstance(statement, cst.ImportFrom) and not isinstance(
                statement.names, cst.ImportStar
            ):
                if file.resolver.imported_module(statement) in MODULES:
                    return True
                for alias in statement.names:
                    bound = alias.asname.name if alias.asname is not None else alias.name
                    if dotted(bound) == node.value:
                        return self._keeps_name(file, alias, new)
        return False

    def _plain(self, file: PythonFile, statement: cst.Import) -> Iterator[Site]:
        """``import celery.task`` binds ``celery``: that stays, the module is gone."""
        for alias in statement.names:
            name = dotted(alias.name)
            if (
                alias.asname is None
                and name in OLD_MODULES
                and name not in ("celery.utils", "kombu.utils")
            ):
                new = MODULES.get(name, name.partition(".")[0])
                yield file.convert_at(alias, f"{name} is gone", file.swap(alias.name, new))


def _new_import(alias: cst.ImportAlias, new: str) -> NewImport:
    bound = alias.asname.name if alias.asname is not None else alias.name
    module, _, name = new.rpartition(".")
    return NewImport(module, name, "" if name == dotted(bound) else dotted(bound))


def _makes_a_task(file: PythonFile, node: cst.CSTNode) -> bool:
    """Whether the module ``celery.task`` is used as the decorator that it was in Celery 3."""
    parent = file.parent(node)
    if isinstance(parent, cst.Call) and parent.func is node:
        parent = file.parent(parent)
    return isinstance(parent, cst.Decorator)


def _written(file: PythonFile, new: str, at: cst.CSTNode) -> tuple[str, tuple[NewImport, ...]]:
    """The source of a moved name, and what it needs imported."""
    if new.startswith("builtins."):
        return new.removeprefix("builtins."), ()
    owner, _, attributes = new.partition(":")
    root = root_name(at)
    text, imports = file.import_as(owner, at if root is None else root)
    return (f"{text}.{attributes}" if attributes else text), imports


RULE = MovedNames()
