"""What is known of the whole project before a rule runs: gathered in each file, then joined.

Names are full dotted names. A name of the project starts with the module it stands in, as its path
says: ``src.proj.tasks.add`` for ``add`` in ``src/proj/tasks.py``. Imports say ``proj.tasks.add``;
`Facts` finds the module by the end of its path.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from functools import cached_property

from .routes import queue_by

__all__ = ["ConfigSource", "Facts", "ModuleFacts"]

APP_CLASSES = frozenset({"celery.Celery", "celery.app.Celery", "celery.app.base.Celery"})
APP_OBJECTS = frozenset(
    {
        "celery.current_app",
        "celery._state.current_app",
        "celery.app.default_app",
        "celery.app.app_or_default",
        "celery.app.current_app",
    }
)
TASK_DECORATORS = frozenset(
    {
        "celery.shared_task",
        "celery.app.shared_task",
        "celery.task",
        "celery.decorators.task",
        "celery.decorators.periodic_task",
        "celery.task.task",
        "celery.task.periodic_task",
        "celery.task.base.task",
        "celery.contrib.django.task.shared_task",
    }
)
TASK_CLASSES = frozenset(
    {"celery.Task", "celery.app.task.Task", "celery.task.Task", "celery.task.base.Task"}
)
BROKERS = {
    **dict.fromkeys(("redis", "rediss", "sentinel", "redis+socket"), "redis"),
    **dict.fromkeys(("amqp", "amqps", "pyamqp", "librabbitmq"), "amqp"),
}
FOREIGN = frozenset({"__future__", "celery", "datetime", "django", "kombu", "logging", "os", "sys"})
STEPS = 12  # re-exports that are followed


@dataclass(frozen=True)
class ConfigSource:
    """One way in which an app gets its settings.

    ``how`` is ``module`` (a dotted name in `reference`), ``object`` (the full name of a class or
    instance), ``django`` (the settings of Django), ``envvar`` (a variable that names the module)
    or ``unknown``. The namespace is empty where there is none, None where it cannot be read.
    """

    how: str
    reference: str
    namespace: str | None
    path: str
    line: int


@dataclass(frozen=True)
class ModuleFacts:
    """What one Python file says of itself."""

    path: str
    module: str
    bindings: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Names at the top level that imports bind."""
    aliases: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Names at the top level that are another name's value."""
    stars: tuple[str, ...] = ()
    """Modules whose names are all imported."""
    results: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Names bound to what a call returns: the full names of the callable."""
    factories: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Functions that return what a call of these names returns."""
    decorated: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Functions and the full names of their decorators."""
    classes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Classes and the full names of their bases."""
    attributes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Classes and the names that their bodies bind."""
    methods: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Classes and the methods that they define."""
    configuration: tuple[ConfigSource, ...] = ()
    django_settings: tuple[str, ...] = ()
    """Modules that are named as ``DJANGO_SETTINGS_MODULE``."""
    task_names: dict[str, str | None] = field(default_factory=dict)
    """Decorated functions and the names that their decorators give: `routereading.task_name_of`."""
    routes: tuple[tuple[str, str] | None, ...] = ()
    """Names or patterns of tasks and their queues; None for routes that cannot be read."""
    brokers: frozenset[str] = frozenset()
    """Schemes of the URLs that brokers are given, as far as they are written out."""
    zones: dict[str, str | None] = field(default_factory=dict)
    """Settings at the top level that say in which time zone schedules are: the value of a literal
    (``True`` and ``False`` as text), None for what cannot be read."""
    names: frozenset[str] = frozenset()
    """Everything bound at the top level."""
    depth: int = 1
    """How many parts its importable name has at least: one more for each package around it."""


class Facts:
    """The facts of all modules, joined. Immutable once built; goes to every process."""

    def __init__(self, modules: Iterable[ModuleFacts] = ()) -> None:
        self.modules: dict[str, ModuleFacts] = {each.path: each for each in modules}
        self._canonical: dict[tuple[str, str], str] = {}

    def __getstate__(self) -> dict[str, object]:
        """What goes to another process: not the answers that were given here."""
        return {**self.__dict__, "_canonical": {}}

    @cached_property
    def _by_last(self) -> dict[str, list[ModuleFacts]]:
        index: dict[str, list[ModuleFacts]] = {}
        for each in self.modules.values():
            index.setdefault(each.module.rpartition(".")[2], []).append(each)
        return index

    def module(self, name: str, near: str = "") -> ModuleFacts | None:
        """The module of the project that a dotted name means, seen from the file ``near``.

        ``celery`` is never the module ``shop/celery.py`` of a package ``shop``. Where several paths
        end that way, the one that shares most folders with ``near`` is taken.
        """
        suffix, parts = f".{name}", name.count(".") + 1
        found = [
            each
            for each in self._by_last.get(name.rpartition(".")[2], [])
            if each.module == name or (each.module.endswith(suffix) and parts >= each.depth)
        ]
        if not found:
            return None
        return max(found, key=lambda each: (_shared(each.path, near), each.module == name))

    def canonical(self, name: str, near: str = "") -> str:
        """What a name stands for in the end, through re-exports and aliases of the project."""
        key = (name, near)
        found = self._canonical.get(key)
        if found is None:
            found = self._canonical[key] = self._follow(name, near, STEPS)
        return found

    def defined_as(self, name: str, near: str = "") -> str:
        """Where a name is bound to a value: through imports of the project, not through aliases."""
        return self._follow(name, near, STEPS, aliases=False)

    def _follow(self, name: str, near: str, steps: int, *, aliases: bool = True) -> str:
        if not steps:
            return name
        found = self._locate(name, near)
        if found is None:
            return name
        module, inner, rest = found
        targets = module.bindings.get(inner, ())
        if aliases:
            targets += module.aliases.get(inner, ())
        if len(targets) == 1:
            return self._follow(targets[0] + rest, module.path, steps - 1, aliases=aliases)
        if targets:
            # An import with a fallback: what comes from elsewhere goes before what is made here.
            foreign = [each for each in targets if self._locate(each, module.path) is None]
            if len(foreign) >= 1:
                return foreign[0] + rest
            return name
        if inner not in module.names:
            for star in module.stars:
                starred = f"{star}.{inner}{rest}"
                followed = self._follow(starred, module.path, steps - 1, aliases=aliases)
                if followed != starred or self._defines(star, inner, module.path):
                    return followed
        return f"{module.module}.{inner}{rest}"

    def _defines(self, module_name: str, inner: str, near: str) -> bool:
        module = self.module(module_name, near)
        return module is not None and inner in module.names

    def _locate(self, name: str, near: str) -> tuple[ModuleFacts, str, str] | None:
        """The module of a full name, the name in it, and the attributes behind that."""
        parts = name.split(".")
        for length in range(len(parts) - 1, 0, -1):
            module = self.module(".".join(parts[:length]), near)
            if module is not None:
                rest = "".join(f".{each}" for each in parts[length + 1 :])
                return module, parts[length], rest
        return None

    # ------------------------------------------------------------------------- what it is

    def is_app(self, name: str, near: str = "") -> bool:
        """Whether a name is a Celery app."""
        return self._is_app(self.canonical(name, near), near, STEPS)

    def _is_app(self, name: str, near: str, steps: int) -> bool:
        if name in APP_OBJECTS:
            return True
        found = self._locate(name, near)
        if found is None or found[2] or not steps:
            return False
        module, inner, _ = found
        callables = module.results.get(inner, ())
        return any(self.makes_app(each, module.path, steps - 1) for each in callables)

    def makes_app(self, name: str, near: str = "", steps: int = STEPS) -> bool:
        """Whether calling a name gives a Celery app: the class, a subclass, a factory."""
        name = self.canonical(name, near)
        if name in APP_CLASSES:
            return True
        found = self._locate(name, near)
        if found is None or found[2] or not steps:
            return False
        module, inner, _ = found
        makers = module.classes.get(inner, ()) + module.factories.get(inner, ())
        return any(self.makes_app(each, module.path, steps - 1) for each in makers)

    def is_task_decorator(self, name: str, near: str = "") -> bool:
        """Whether decorating with a name makes a task: ``shared_task``, ``app.task``."""
        name = self.canonical(name, near)
        if name in TASK_DECORATORS:
            return True
        owner, _, last = name.rpartition(".")
        return last == "task" and bool(owner) and self.is_app(owner, near)

    def is_task(self, name: str, near: str = "") -> bool:
        """Whether a name is a task: a decorated function, or an instance that an app registers.

        One of the engine counts too: a second run sees what the first has converted.
        """
        name = self.canonical(name, near)
        found = self._locate(name, near)
        if found is None or found[2]:
            return False
        module, inner, _ = found
        decorators = module.decorated.get(inner, ())
        if any(
            self.is_task_decorator(each, module.path) or self._is_of_engine(each, module.path)
            for each in decorators
        ):
            return True
        return any(
            each.endswith(".register_task") and self.is_app(each.rpartition(".")[0], module.path)
            for each in module.results.get(inner, ())
        )

    def _is_of_engine(self, name: str, near: str) -> bool:
        """Whether decorating with a name makes a task of the engine: ``task``, ``app.task``."""
        name = self.canonical(name, near)
        owner, _, last = name.rpartition(".")
        if last != "task":
            return False
        found = self._locate(owner, near) if owner != "taskmq" else None
        return owner == "taskmq" or (
            found is not None and "taskmq.App" in found[0].results.get(found[1], ())
        )

    def is_task_class(self, name: str, near: str = "") -> bool:
        """Whether a name is ``celery.Task``, ``app.Task`` or a class derived from one."""
        return self._descends(name, near, self.is_base_of_tasks)

    def is_base_of_tasks(self, name: str, near: str = "") -> bool:
        """Whether a name is ``celery.Task`` or ``app.Task`` itself."""
        owner, _, last = name.rpartition(".")
        return name in TASK_CLASSES or (last == "Task" and bool(owner) and self.is_app(owner, near))

    def members(self, name: str, near: str = "", steps: int = STEPS) -> frozenset[str]:
        """What a class of the project defines, with the classes that it derives from."""
        found = self._locate(self.canonical(name, near), near)
        if found is None or found[2] or not steps:
            return frozenset()
        module, inner, _ = found
        own = module.attributes.get(inner, ()) + module.methods.get(inner, ())
        bases = module.classes.get(inner, ())
        return frozenset(own).union(*(self.members(each, module.path, steps - 1) for each in bases))

    def derives_from(self, name: str, wanted: Collection[str], near: str = "") -> bool:
        """Whether a name is one of these classes, or derives from one, as far as can be seen."""
        return self._descends(name, near, lambda each, _: each in wanted)

    def _descends(
        self, name: str, near: str, is_it: Callable[[str, str], bool], steps: int = STEPS
    ) -> bool:
        """Whether it is so of a name, or of a class that it derives from."""
        name = self.canonical(name, near)
        if is_it(name, near):
            return True
        found = self._locate(name, near)
        if found is None or found[2] or not steps:
            return False
        module, inner, _ = found
        bases = module.classes.get(inner, ())
        return any(self._descends(each, module.path, is_it, steps - 1) for each in bases)

    def app_path(self, spec: str) -> str | None:
        """``module:name`` of the app that ``celery -A`` takes for a text; None if it is not seen.

        As Celery looks for it: the name that is given, then ``app`` and ``celery`` in the module,
        then the same in its module ``celery``, then any other name.
        """
        name, _, attribute = spec.partition(":")
        if attribute:
            return spec if self.is_app(f"{name}.{attribute}") else None
        owner, _, last = name.rpartition(".")
        module = self.module(name)
        if module is None:
            holder = self.module(owner) if owner else None
            if holder is not None and self.is_app(f"{owner}.{last}", holder.path):
                return f"{owner}:{last}"
            return None
        inner = self.module(f"{name}.celery", module.path)
        for one, path in ((module, name), (inner, f"{name}.celery")):
            for each in ("app", "celery") if one is not None else ():
                if one is not None and self._holds_app(one, each):
                    return f"{path}:{each}"
        others = sorted(each for each in module.names if self._holds_app(module, each))
        return f"{name}:{others[0]}" if others else None

    def _holds_app(self, module: ModuleFacts, name: str) -> bool:
        return name in module.names and self.is_app(f"{module.module}.{name}", module.path)

    @cached_property
    def only_app(self) -> str | None:
        """Full name of the one app that the project makes, outside of its tests and templates.

        One of the engine counts too: a second run sees what the first has converted.
        """
        found = [
            f"{module.module}.{name}"
            for module in self.modules.values()
            if "test" not in module.path and "template" not in module.path
            for name in sorted(module.results)
            if "taskmq.App" in module.results[name]
            or self.is_app(f"{module.module}.{name}", module.path)
        ]
        return found[0].removeprefix("src.") if len(found) == 1 else None

    @cached_property
    def has_shared_tasks(self) -> bool:
        """Whether there are tasks that belong to no app by their decorator."""
        return any(
            self.canonical(each, module.path) in TASK_DECORATORS
            for module in self.modules.values()
            for decorators in module.decorated.values()
            for each in decorators
        )

    @cached_property
    def app_stands_alone(self) -> bool:
        """Whether the module of the one app imports nothing of the project when it is imported:
        then any module may import it, without a circle."""
        if self.only_app is None:
            return False
        module = self.module(self.only_app.rpartition(".")[0])
        if module is None:
            return False
        imported = {each for names in module.bindings.values() for each in names} | {*module.stars}
        roots = {each.partition(".")[0] for each in imported}
        if "." not in self.only_app.rpartition(".")[0]:
            return roots <= FOREIGN
        return module.module.removeprefix("src.").partition(".")[0] not in roots

    def task_modules(self) -> list[str]:
        """Modules of the project that are named ``tasks`` and define tasks."""
        found = []
        for module in self.modules.values():
            name = module.module
            if name.rpartition(".")[2] == "tasks" and any(
                self.is_task(f"{name}.{each}", module.path) for each in module.decorated
            ):
                found.append(name.removeprefix("src."))
        return sorted(found)

    # ---------------------------------------------------------------------- configuration

    @cached_property
    def configuration(self) -> tuple[ConfigSource, ...]:
        """Every way in which an app of the project gets its settings."""
        return tuple(each for module in self.modules.values() for each in module.configuration)

    @cached_property
    def routes(self) -> dict[str, str]:
        """Patterns of names and the queues that jobs of such tasks go to, where all routes can be
        read and each is one of tasks of this project; otherwise nothing."""
        found = [each for module in self.modules.values() for each in module.routes]
        routes = {each[0]: each[1] for each in found if each is not None}
        if None in found or len(routes) < len(found):
            return {}
        known = [
            (module.module, function, name)
            for module in self.modules.values()
            for function, name in module.task_names.items()
        ]
        for pattern, queue in routes.items():
            if not any(queue_by({pattern: queue}, *each) for each in known):
                return {}
        return routes

    def queue_of(self, path: str, function: str) -> str | None:
        """The queue that routes name for a task of a file."""
        module = self.modules.get(path)
        if module is None or function not in module.task_names:
            return None
        name = module.task_names[function]
        return queue_by(self.routes, module.module, function, name)

    @cached_property
    def broker(self) -> str:
        """``redis`` or ``amqp``, if every broker whose URL can be seen is of that kind."""
        schemes = {each for module in self.modules.values() for each in module.brokers}
        kinds = {BROKERS.get(each, "other") for each in schemes - {"memory", "filesystem"}}
        return kinds.pop() if len(kinds) == 1 else ""

    @cached_property
    def django_settings(self) -> frozenset[str]:
        """Paths of the modules that are Django's settings, the ones they are made of included."""
        named = [
            found.path
            for module in self.modules.values()
            for name in module.django_settings
            if (found := self.module(name, module.path))
        ]
        queue, paths = list(named), set(named)
        while queue:
            module = self.modules[queue.pop()]
            for star in module.stars:
                found = self.module(star, module.path)
                if found is not None and found.path not in paths:
                    paths.add(found.path)
                    queue.append(found.path)
        return frozenset(paths)


def _shared(one: str, other: str) -> int:
    """How many leading folders two paths share."""
    count = 0
    for left, right in zip(one.split("/")[:-1], other.split("/")[:-1], strict=False):
        if left != right:
            break
        count += 1
    return count
