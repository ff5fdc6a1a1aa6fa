"""Settings by their old names on ``app.conf``: set, read, updated."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from taskmq_migrate.model import Example, Page, Site
from taskmq_migrate.names import dotted, literal_text
from taskmq_migrate.pythonfile import PythonFile
from taskmq_migrate.rule import PythonRule
from taskmq_migrate.settingnames import OLD_TO_NEW

__all__ = ["RULE"]

READERS = frozenset({"getattr", "hasattr", "setattr", "delattr"})
METHODS = frozenset({"get", "setdefault", "pop", "__getitem__"})
DICTS = frozenset({"config_from_object", "add_defaults"})
CONFS = frozenset({"self.app.conf", "self._app.conf", "task.app.conf", "sender.app.conf"})


class AppConf(PythonRule):
    id = "TMQ031"
    title = "settings have their present names on app.conf"
    words = ("CELERY", "BROKER_")
    page = Page(
        why="app.conf knows both names of a setting; the old ones cannot be mixed with new ones in "
        "Celery. Attributes, items, get(), getattr(), the arguments of update() and dictionaries "
        "are rewritten, and the celery_config fixture of pytest.",
        risk="None: both names are the same setting.",
        examples=(
            Example(
                "app.py",
                before="from celery import Celery\n\napp = Celery()\n"
                "app.conf.update(CELERY_TASK_SERIALIZER='json', BROKER_URL='redis://')\n"
                "app.conf.CELERYD_CONCURRENCY = 4\nprint(app.conf['CELERY_TIMEZONE'])\n",
                after="from celery import Celery\n\napp = Celery()\n"
                "app.conf.update(task_serializer='json', broker_url='redis://')\n"
                "app.conf.worker_concurrency = 4\nprint(app.conf['timezone'])\n",
            ),
        ),
    )

    def sites(self, file: PythonFile) -> Iterator[Site]:
        for attribute in file.nodes(cst.Attribute):
            if attribute.attr.value in OLD_TO_NEW and self._is_conf(file, attribute.value):
                yield self._renamed(file, attribute.attr, attribute.attr.value)
        for subscript in file.nodes(cst.Subscript):
            if self._is_conf(file, subscript.value) and len(subscript.slice) == 1:
                index = subscript.slice[0].slice
                if isinstance(index, cst.Index):
                    yield from self._string(file, index.value)
        for comparison in file.nodes(cst.Comparison):
            if self._is_conf(file, comparison.comparisons[0].comparator):
                yield from self._string(file, comparison.left)
        for call in file.nodes(cst.Call):
            yield from self._call(file, call)
        for function in file.nodes(cst.FunctionDef):
            if function.name.value == "celery_config" and function.decorators:
                for returned in file.nodes(cst.Return):
                    if file.enclosing(returned, cst.FunctionDef) is function and returned.value:
                        yield from self._dict(file, returned.value)

    def _call(self, file: PythonFile, call: cst.Call) -> Iterator[Site]:
        func = call.func
        reads = isinstance(func, cst.Name) and func.value in READERS and len(call.args) > 1
        if reads and self._is_conf(file, call.args[0].value):
            yield from self._string(file, call.args[1].value)
        if isinstance(func, cst.Attribute) and self._is_conf(file, func.value):
            if func.attr.value in METHODS and call.args:
                yield from self._string(file, call.args[0].value)
            elif func.attr.value == "update":
                yield from self._update(file, call)
        loads = isinstance(func, cst.Attribute) and func.attr.value in DICTS and call.args
        if loads and isinstance(func, cst.Attribute) and file.is_app(func.value):
            yield from self._dict(file, call.args[0].value)
        if file.makes_app(func):
            for argument in call.args:
                if argument.keyword is not None and argument.keyword.value == "config_source":
                    yield from self._dict(file, argument.value)

    def _update(self, file: PythonFile, call: cst.Call) -> Iterator[Site]:
        for argument in call.args:
            if argument.keyword is not None and argument.keyword.value in OLD_TO_NEW:
                yield self._renamed(file, argument.keyword, argument.keyword.value)
            elif argument.keyword is None:
                yield from self._dict(file, argument.value)

    def _dict(self, file: PythonFile, node: cst.BaseExpression) -> Iterator[Site]:
        if isinstance(node, cst.Dict):
            for element in node.elements:
                if isinstance(element, cst.DictElement):
                    yield from self._string(file, element.key)
        elif isinstance(node, cst.Call) and file.is_(node.func, "builtins.dict"):
            yield from self._update(file, node)

    def _string(self, file: PythonFile, node: cst.BaseExpression) -> Iterator[Site]:
        old = literal_text(node)
        if isinstance(node, cst.SimpleString) and old in OLD_TO_NEW:
            text = f"{node.prefix}{node.quote}{OLD_TO_NEW[old]}{node.quote}"
            message = f"{old} is {OLD_TO_NEW[old]} now"
            yield file.convert_at(node, message, file.swap(node, text))

    def _renamed(self, file: PythonFile, node: cst.Name, old: str) -> Site:
        message = f"{old} is {OLD_TO_NEW[old]} now"
        return file.convert_at(node, message, file.swap(node, OLD_TO_NEW[old]))

    def _is_conf(self, file: PythonFile, node: cst.CSTNode) -> bool:
        """Whether an expression is the settings of an app, by what it is or how it is called."""
        return file.is_conf(node) or dotted(node) in CONFS


RULE = AppConf()
