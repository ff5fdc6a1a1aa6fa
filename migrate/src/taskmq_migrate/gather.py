"""Reads the facts of one Python file; `taskmq_migrate.facts` joins those of all."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from .brokers import brokers_of
from .facts import ConfigSource, ModuleFacts
from .names import literal_text
from .pythonfile import PythonFile
from .routereading import routes_of, task_name_of

__all__ = ["gather"]

APP = "celery.Celery"
ONLY_OF_APPS = frozenset({"autodiscover_tasks", "config_from_object"})
DJANGO_SETTINGS = ("django.conf:settings", "django.conf.settings")


def gather(file: PythonFile) -> ModuleFacts:
    """What a file says of itself: names are followed through its own imports only."""
    return _Gatherer(file).facts()


class _Gatherer:
    def __init__(self, file: PythonFile) -> None:
        self.file = file
        self.bindings: dict[str, tuple[str, ...]] = {}
        self.aliases: dict[str, tuple[str, ...]] = {}
        self.results: dict[str, tuple[str, ...]] = {}
        self.factories: dict[str, tuple[str, ...]] = {}
        self.decorated: dict[str, tuple[str, ...]] = {}
        self.classes: dict[str, tuple[str, ...]] = {}
        self.attributes: dict[str, tuple[str, ...]] = {}
        self.methods: dict[str, tuple[str, ...]] = {}
        self.task_names: dict[str, str | None] = {}
        self.zones: dict[str, str | None] = {}
        self.names: set[str] = set()

    def facts(self) -> ModuleFacts:
        for statement in _flat(self.file.module.body):
            self._statement(statement)
        for name in set(self._configured()) & self.results.keys():
            self.results[name] += (APP,)
        return ModuleFacts(
            path=self.file.path,
            module=self.file.resolver.module,
            bindings=self.bindings,
            aliases=self.aliases,
            stars=self.file.stars,
            results=self.results,
            factories=self.factories,
            decorated=self.decorated,
            classes=self.classes,
            attributes=self.attributes,
            methods=self.methods,
            configuration=tuple(self._configuration()),
            django_settings=tuple(self._django_settings()),
            task_names=self.task_names,
            routes=tuple(routes_of(self.file)),
            brokers=frozenset(brokers_of(self.file)),
            zones=self.zones,
            names=frozenset(self.names),
        )

    def _full(self, node: cst.CSTNode) -> tuple[str, ...]:
        return tuple(sorted(self.file.resolver.raw(node)))

    def _statement(self, node: cst.CSTNode) -> None:
        if isinstance(node, cst.Import | cst.ImportFrom):
            self._import(node)
        elif isinstance(node, cst.FunctionDef):
            self.names.add(node.name.value)
            decorators = [self._callee(each.decorator) for each in node.decorators]
            self.decorated[node.name.value] = tuple(
                name for each in decorators for name in self._full(each)
            )
            if node.decorators:
                self.task_names[node.name.value] = task_name_of(node)
            self.factories[node.name.value] = self._returned(node)
        elif isinstance(node, cst.ClassDef):
            self.names.add(node.name.value)
            self.classes[node.name.value] = tuple(
                name for each in node.bases for name in self._full(each.value)
            )
            self.attributes[node.name.value] = tuple(_bound(node))
            self.methods[node.name.value] = tuple(_methods(node))
        elif isinstance(node, cst.Assign):
            for target in node.targets:
                self._assignment(target.target, node.value)
        elif isinstance(node, cst.AnnAssign) and node.value is not None:
            self._assignment(node.target, node.value)

    def _callee(self, node: cst.BaseExpression) -> cst.BaseExpression:
        return node.func if isinstance(node, cst.Call) else node

    def _import(self, node: cst.Import | cst.ImportFrom) -> None:
        if isinstance(node.names, cst.ImportStar):
            return
        for alias in node.names:
            bound = alias.asname.name if alias.asname is not None else alias.name
            while isinstance(bound, cst.Attribute):
                bound = bound.value  # type: ignore[assignment]  # an import's name: attributes of a name
            if not isinstance(bound, cst.Name):
                continue
            name = bound.value
            self.names.add(name)
            if isinstance(node, cst.ImportFrom):
                module = self.file.resolver.imported_module(node)
                full = f"{module}.{alias.evaluated_name}"
            else:
                full = alias.evaluated_name if alias.asname is not None else name
            if full not in self.bindings.get(name, ()):
                self.bindings[name] = (*self.bindings.get(name, ()), full)

    def _assignment(self, target: cst.BaseExpression, value: cst.BaseExpression) -> None:
        if not isinstance(target, cst.Name):
            return
        name = target.value
        self.names.add(name)
        if name.endswith(("TIMEZONE", "ENABLE_UTC")):
            name_of = value.value if isinstance(value, cst.Name) else ""
            read = name_of if name_of in ("True", "False") else literal_text(value)
            self.zones[name] = read if self.zones.get(name, read) == read else None
        if isinstance(value, cst.Call):
            self.results[name] = self.results.get(name, ()) + self._full(value.func)
        elif isinstance(value, cst.Name | cst.Attribute):
            full = self._full(value)
            if len(full) == 1 and not full[0].startswith("builtins."):
                self.aliases[name] = (*self.aliases.get(name, ()), *full)

    def _returned(self, function: cst.FunctionDef) -> tuple[str, ...]:
        """Whose results a function returns: by its annotation, or by what its returns name."""
        found: list[str] = []
        if function.returns is not None:
            found += self._full(function.returns.annotation)
        for node in self.file.nodes(cst.Return):
            if self.file.enclosing(node, cst.FunctionDef) is not function or node.value is None:
                continue
            value: cst.BaseExpression | None = node.value
            if isinstance(value, cst.Name):
                value, _ = self.file.bound_to(value)
            if isinstance(value, cst.Call):
                found += self._full(value.func)
        return tuple(found)

    def _configured(self) -> Iterable[str]:
        """Names that are apps by what is asked of them, whatever made them."""
        for call in self.file.nodes(cst.Call):
            method = call.func
            if (
                isinstance(method, cst.Attribute)
                and method.attr.value in ONLY_OF_APPS
                and isinstance(method.value, cst.Name)
                and self.file.enclosing(call, cst.FunctionDef) is None
            ):
                yield method.value.value

    # ---------------------------------------------------------------------- configuration

    def _configuration(self) -> Iterable[ConfigSource]:
        for call in self.file.nodes(cst.Call):
            if isinstance(call.func, cst.Attribute):
                if call.func.attr.value == "config_from_object":
                    yield self._from_object(call)
                elif call.func.attr.value == "config_from_envvar":
                    name = literal_text(call.args[0].value) if call.args else None
                    yield self._source(call, "envvar", name or "", "")
            for argument in call.args:
                if (
                    argument.keyword is not None
                    and argument.keyword.value == "config_source"
                    and self.file.makes_app(call.func)
                ):
                    how, reference = self._reference(argument.value)
                    yield self._source(call, how, reference, self._namespace(call))

    def _from_object(self, call: cst.Call) -> ConfigSource:
        how, reference = "unknown", ""
        for argument in call.args[:1]:
            if argument.keyword is None or argument.keyword.value == "obj":
                how, reference = self._reference(argument.value)
        return self._source(call, how, reference, self._namespace(call))

    def _reference(self, node: cst.BaseExpression) -> tuple[str, str]:
        text = literal_text(node)
        if text is not None:
            return ("django", "") if text in DJANGO_SETTINGS else ("module", text)
        if isinstance(node, cst.Call):
            node = node.func
        names = self._full(node)
        if names == ("django.conf.settings",):
            return "django", ""
        return ("object", names[0]) if len(names) == 1 else ("unknown", "")

    def _namespace(self, call: cst.Call) -> str | None:
        for argument in call.args:
            if argument.keyword is not None and argument.keyword.value == "namespace":
                return literal_text(argument.value)
        return ""

    def _source(
        self, call: cst.Call, how: str, reference: str, namespace: str | None
    ) -> ConfigSource:
        line, _ = self.file.position(self.file.span(call).start)
        return ConfigSource(how, reference, namespace, self.file.path, line)

    def _django_settings(self) -> Iterable[str]:
        """Literals beside ``DJANGO_SETTINGS_MODULE``: in a call's arguments or an assignment."""
        for call in self.file.nodes(cst.Call):
            texts = [literal_text(each.value) for each in call.args]
            if "DJANGO_SETTINGS_MODULE" in texts:
                yield from (each for each in texts if each and each != "DJANGO_SETTINGS_MODULE")
        for assign in self.file.nodes(cst.Assign):
            target = assign.targets[0].target
            if isinstance(target, cst.Subscript):
                index = target.slice[0].slice
                key = literal_text(index.value) if isinstance(index, cst.Index) else None
                value = literal_text(assign.value)
                if key == "DJANGO_SETTINGS_MODULE" and value:
                    yield value


def _bound(node: cst.ClassDef) -> Iterable[str]:
    """The names that assignments in the body of a class bind."""
    for statement in _flat(node.body.body):
        if isinstance(statement, cst.Assign):
            targets = [each.target for each in statement.targets]
        elif isinstance(statement, cst.AnnAssign):
            targets = [statement.target]
        else:
            continue
        yield from (each.value for each in targets if isinstance(each, cst.Name))


def _methods(node: cst.ClassDef) -> Iterable[str]:
    """The methods of a class."""
    for statement in _flat(node.body.body):
        if isinstance(statement, cst.FunctionDef):
            yield statement.name.value


def _flat(body: Iterable[cst.CSTNode]) -> Iterable[cst.CSTNode]:
    """The statements of a module's top level, those in conditions and handlers included."""
    for node in body:
        if isinstance(node, cst.SimpleStatementLine | cst.SimpleStatementSuite):
            yield from node.body
        elif isinstance(
            node, cst.If | cst.Try | cst.Else | cst.ExceptHandler | cst.Finally | cst.With
        ):
            yield from _flat(_blocks(node))
        elif isinstance(node, cst.IndentedBlock):
            yield from _flat(node.body)
        else:
            yield node


def _blocks(node: cst.CSTNode) -> Iterable[cst.CSTNode]:
    yield node.body  # type: ignore[attr-defined]  # every compound statement has one
    for name in ("handlers", "orelse", "finalbody"):
        found = getattr(node, name, None)
        if isinstance(found, cst.CSTNode):
            yield found
        elif found:
            yield from found
