"""Settings by their old names, in the modules and classes that apps are configured from."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from taskmq_migrate.configstyle import Renames, django_style, renames
from taskmq_migrate.model import Example, Page, Safety, Site
from taskmq_migrate.names import dotted
from taskmq_migrate.pythonfile import PythonFile
from taskmq_migrate.rule import PythonRule

__all__ = ["RULE"]


class OldSettings(PythonRule):
    id = "TMQ030"
    title = "settings have their present names where apps are configured from"
    words = ("CELERY", "BROKER_", "config_from_object", "DJANGO_SETTINGS_MODULE", "config_source")
    strict_words = True
    page = Page(
        why="CELERYD_CONCURRENCY is worker_concurrency since Celery 4, or "
        "CELERY_WORKER_CONCURRENCY where settings are read with namespace='CELERY'. How they are "
        "read is looked up in the whole project: a module, a class, Django's settings, with or "
        "without a namespace. Who imports a setting from there is rewritten too.",
        risk="A module that holds settings of others as well, and Django's settings that are read "
        "without a namespace, wait for --unsafe: what reads them by name at run time would miss "
        "them. So does an old name beside the present one, which wins: its line goes. Names in "
        "strings, such as those of environment variables, stay.",
        examples=(
            Example(
                "celeryconfig.py",
                before="BROKER_URL = 'redis://'\nCELERYD_CONCURRENCY = 4\n"
                "CELERY_RESULT_BACKEND = BROKER_URL\n",
                after="broker_url = 'redis://'\nworker_concurrency = 4\n"
                "result_backend = broker_url\n",
                others={
                    "app.py": "from celery import Celery\n\napp = Celery()\n"
                    "app.config_from_object('celeryconfig')\n"
                },
            ),
            Example(
                "shop/settings.py",
                before="CELERYD_CONCURRENCY = 4\nCELERY_RESULT_BACKEND = 'rpc://'\n",
                after="CELERY_WORKER_CONCURRENCY = 4\nCELERY_RESULT_BACKEND = 'rpc://'\n",
                others={
                    "shop/celery.py": "from celery import Celery\n\napp = Celery()\n"
                    "app.config_from_object('django.conf:settings', namespace='CELERY')\n"
                },
            ),
        ),
    )

    def sites(self, file: PythonFile) -> Iterator[Site]:
        table = renames(file.facts)
        if table.names or table.doubled:
            for name in file.nodes(cst.Name):
                yield from self._name(file, name, table)
            for attribute in file.nodes(cst.Attribute):
                yield from self._attribute(file, attribute, table)
            for statement in file.nodes(cst.ImportFrom):
                yield from self._import(file, statement, table)
        yield from self._namespace(file, table)

    def _name(self, file: PythonFile, node: cst.Name, table: Renames) -> Iterator[Site]:
        parent = file.parent(node)
        if isinstance(parent, cst.ImportAlias | cst.AsName):
            return
        if isinstance(parent, cst.Attribute) and parent.attr is node:
            return
        if isinstance(parent, cst.Arg) and parent.keyword is node:
            return
        full = self._full(file, node, table)
        if full in table.doubled and isinstance(parent, cst.AssignTarget | cst.AnnAssign):
            yield self._beside(file, node, parent, table.doubled[full])
        if full in table.names and self._keeps_alias(file, node):
            yield self._renamed(file, node, full, table)

    def _beside(self, file: PythonFile, node: cst.Name, parent: cst.CSTNode, new: str) -> Site:
        """One that loses against the present name: its line goes, if nothing here reads it."""
        line = file.statement(node)
        alone = (
            isinstance(line, cst.SimpleStatementLine)
            and len(line.body) == 1
            and isinstance(file.parent(line), cst.Module)
            and (parent is line.body[0] or getattr(line.body[0], "targets", ()) == (parent,))
        )
        if not alone or sum(each.value == node.value for each in file.nodes(cst.Name)) > 1:
            return file.mark_at(node, f"{node.value} is set beside {new}: keep one")
        return file.convert_at(
            node,
            f"{node.value} loses against {new}, which is set beside it",
            file.replace(file.lines_of(line)),  # type: ignore[arg-type]  # a line of statements
            safety=Safety.UNSAFE,
        )

    def _full(self, file: PythonFile, node: cst.Name, table: Renames) -> str:
        """The full name of a setting that a plain name stands for."""
        for assignment in file.resolver.assignments(node):
            if assignment.scope.kind == "class":
                owner = assignment.scope.name
                return f"{file.resolver.module}.{owner}.{node.value}"
        return _defined(file, node)

    def _keeps_alias(self, file: PythonFile, node: cst.Name) -> bool:
        """A name that an import binds follows it, unless it is an alias of the file's own."""
        for assignment in file.resolver.assignments(node):
            statement = assignment.node
            if isinstance(statement, cst.ImportFrom) and not isinstance(
                statement.names, cst.ImportStar
            ):
                for alias in statement.names:
                    if alias.asname is not None and dotted(alias.asname.name) == node.value:
                        return False
        return True

    def _attribute(self, file: PythonFile, node: cst.Attribute, table: Renames) -> Iterator[Site]:
        full = _defined(file, node)
        if full in table.names:
            yield self._renamed(file, node.attr, full, table)

    def _import(
        self, file: PythonFile, statement: cst.ImportFrom, table: Renames
    ) -> Iterator[Site]:
        if isinstance(statement.names, cst.ImportStar):
            return
        module = file.resolver.imported_module(statement)
        for alias in statement.names:
            full = file.facts.defined_as(f"{module}.{dotted(alias.name)}", file.path)
            if full in table.names:
                yield self._renamed(file, alias.name, full, table)

    def _renamed(self, file: PythonFile, node: cst.CSTNode, full: str, table: Renames) -> Site:
        new = table.names[full]
        safety = Safety.UNSAFE if full in table.unsafe else None
        message = f"{full.rpartition('.')[2]} is {new} now"
        return file.convert_at(node, message, file.swap(node, new), safety=safety)

    def _namespace(self, file: PythonFile, table: Renames) -> Iterator[Site]:
        """Django's settings that were read without a namespace get one, with their new names."""
        style = django_style(file.facts)
        if style is None or not style.adds_namespace or not table.unsafe:
            return
        for source in file.facts.configuration:
            if source.how != "django" or source.path != file.path:
                continue
            for call in file.nodes(cst.Call):
                line, _ = file.position(file.span(call).start)
                if line == source.line and call.args and "namespace" not in file.code(call):
                    end = file.span(call.args[-1].value).end
                    edit = file.insert(end, f', namespace="{style.namespace}"')
                    message = f"settings are read with namespace={style.namespace!r}"
                    yield file.convert_at(call, message, edit, safety=Safety.UNSAFE)


def _defined(file: PythonFile, node: cst.CSTNode) -> str:
    """Where the value of a name is set; aliases are names of their own."""
    names = {file.facts.defined_as(each, file.path) for each in file.resolver.raw(node)}
    return names.pop() if len(names) == 1 else ""


RULE = OldSettings()
