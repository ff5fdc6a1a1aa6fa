"""Steps that a worker starts and stops with itself.

>>> from celery import bootsteps
>>> class Heartbeat(bootsteps.StartStopStep):
...     def start(self, parent): ...
...     def stop(self, parent): ...
>>> app.steps["worker"].add(Heartbeat)

A `Blueprint` orders steps by what each one ``requires``, makes them, starts them in that order and
stops them the other way round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import Event
from typing import Any, ClassVar

from kombu.common import ignore_errors
from kombu.utils.imports import symbol_by_name

from celery.utils.graph import CycleError, DependencyGraph, GraphFormatter
from celery.utils.imports import qualname
from celery.utils.log import get_logger

__all__ = ("Blueprint", "ConsumerStep", "StartStopStep", "Step")

logger = get_logger(__name__)
debug = logger.debug

RUN, CLOSE, TERMINATE = 1, 2, 3

IGNORE_ERRORS: tuple[type[BaseException], ...] = ()
"""What may end the wait of `Blueprint.join` without a word: programs with threads of their own
kind add what kills one."""


class StepType(type):
    """Gives each step the name and the requirements that blueprints know it by."""

    name: Any
    requires: Any

    def __new__(
        cls, name: str, bases: tuple[type, ...], attrs: dict[str, Any], **kwargs: Any
    ) -> StepType:
        module = attrs.get("__module__")
        path = f"{module}.{name}" if module else name
        attrs.setdefault("__qualname__", name)
        attrs["name"] = attrs.get("name") or path
        return super().__new__(cls, name, bases, attrs, **kwargs)

    def __str__(cls) -> str:
        return str(cls.name)

    def __repr__(cls) -> str:
        needed = ", ".join(str(getattr(one, "name", one)) for one in cls.requires)
        return f"step:{cls.name}{{{needed}}}"


class Step(metaclass=StepType):
    """Something that takes part in the making of a worker.

    ``requires`` are the steps before it: classes, or their paths (``"module:Class"``). A
    ``conditional`` step is part of it only if ``enabled``, the ``last`` one comes behind all.
    """

    name: Any = None
    label: str | None = None
    conditional: ClassVar[bool] = False
    requires: Any = ()
    last: ClassVar[bool] = False
    enabled: bool = True

    def __init__(self, parent: Any, **kwargs: Any) -> None:
        """``kwargs`` are the options of the worker, the user's own among them."""

    def include_if(self, parent: Any) -> bool:
        """Whether the step takes part."""
        return self.enabled

    def instantiate(self, name: Any, *args: Any, **kwargs: Any) -> Any:
        return symbol_by_name(name)(*args, **kwargs)

    def include(self, parent: Any) -> bool:
        return self._should_include(parent)[0]

    def _should_include(self, parent: Any) -> tuple[bool, Any]:
        wanted = self.include_if(parent)
        return (True, self.create(parent)) if wanted else (False, None)

    def create(self, parent: Any) -> Any:
        """Make what the step is there for; gives a service to start and stop, or nothing."""

    @property
    def alias(self) -> str:
        return self.label or str(self.name).rpartition(".")[2]

    def info(self, obj: Any) -> Any:
        """What the step tells in the worker's statistics."""

    def __repr__(self) -> str:
        return f"<step: {self.alias}>"


class StartStopStep(Step):
    """A step that is started with the worker, and stopped with it: by default, what ``create``
    has given."""

    obj: Any = None

    def start(self, parent: Any) -> Any:
        if self.obj:
            return self.obj.start()
        return None

    def stop(self, parent: Any) -> Any:
        if self.obj:
            return self.obj.stop()
        return None

    def close(self, parent: Any) -> Any:
        """Called when the worker is about to stop."""

    def terminate(self, parent: Any) -> Any:
        """Instead of `stop`, if there is no time."""
        if self.obj:
            return getattr(self.obj, "terminate", self.obj.stop)()
        return None

    def include(self, parent: Any) -> bool:
        included, made = self._should_include(parent)
        if included:
            self.obj = made
            parent.steps.append(self)
        return included


class ConsumerStep(StartStopStep):
    """A step that consumes messages of its own, beside the tasks: ``get_consumers(channel)``
    gives the consumers (kombu's)."""

    requires: Any = ("celery.worker.consumer:Connection",)
    consumers: Any = None

    def get_consumers(self, channel: Any) -> Any:
        raise NotImplementedError("a consumer step has get_consumers(channel)")

    def start(self, c: Any) -> None:
        channel = c.connection.channel()
        self.consumers = self.get_consumers(channel)
        for consumer in self.consumers or ():
            consumer.consume()
        drain = getattr(c, "drain", None)  # a program may drain its connection by itself
        if drain is not None:
            drain()

    def stop(self, c: Any) -> None:
        self._close(c)

    def shutdown(self, c: Any) -> None:
        self._close(c, cancel=False)

    def _close(self, c: Any, cancel: bool = True) -> None:
        channels = {}
        for consumer in self.consumers or ():
            if cancel:
                ignore_errors(c.connection, consumer.cancel)
            if consumer.channel:
                channels[id(consumer.channel)] = consumer.channel
        for channel in channels.values():
            ignore_errors(c.connection, channel.close)
        self.consumers = None


class StepFormatter(GraphFormatter):
    """How the steps of a blueprint are drawn: marked are the last one, to which all lead, and
    those that take part only on some condition."""

    blueprint_prefix = "=> "
    conditional_prefix = "? "
    blueprint_scheme: ClassVar[dict[str, Any]] = {"shape": "parallelogram", "color": "slategray4"}
    to_last_scheme: ClassVar[dict[str, Any]] = {"arrowhead": "none", "color": "darkseagreen3"}

    def label(self, step: Any) -> str | None:
        if not step:
            return None
        return self._get_prefix(step) + str(step.name).rpartition(".")[2]

    def _get_prefix(self, step: Any) -> str:
        if step.last:
            return self.blueprint_prefix
        return self.conditional_prefix if step.conditional else ""

    def node(self, obj: Any, **attrs: Any) -> Any:
        return self.draw_node(obj, self.blueprint_scheme if obj.last else self.node_scheme, attrs)

    def edge(self, a: Any, b: Any, **attrs: Any) -> Any:
        look = self.to_last_scheme if a.last else {}
        return self.draw_edge(a, b, self.edge_scheme, {**attrs, **look})


class Blueprint:
    """The steps of one thing, such as a worker, and its life.

    Raises ``ValueError`` (from `apply`) for steps that require each other.
    """

    GraphFormatter = StepFormatter

    name: Any = None
    state: int | None = None
    started: int = 0
    default_steps: ClassVar[set[Any]] = set()
    state_to_name: ClassVar[dict[int | None, str]] = {
        None: "initializing",
        0: "initializing",
        RUN: "running",
        CLOSE: "closing",
        TERMINATE: "terminating",
    }

    def __init__(
        self,
        steps: Iterable[Any] | None = None,
        name: str | None = None,
        on_start: Callable[[], Any] | None = None,
        on_close: Callable[[], Any] | None = None,
        on_stopped: Callable[[], Any] | None = None,
    ) -> None:
        self.name = name or self.name or qualname(type(self))
        self.types = {*(steps or ()), *self.default_steps}
        self.on_start = on_start
        self.on_close = on_close
        self.on_stopped = on_stopped
        self.shutdown_complete = Event()
        self.steps: dict[str, Any] = {}
        self.order: list[Any] = []
        self.graph = DependencyGraph()

    # -- making ------------------------------------------------------------------------------

    def load_step(self, step: Any) -> tuple[str, Any]:
        """A step, given as a class or its path: its name, and the class. Raises
        ``ImportError``."""
        cls = symbol_by_name(step)
        return cls.name, cls

    def claim_steps(self) -> dict[str, Any]:
        """The classes of its own steps, by name."""
        return dict(map(self.load_step, self.types))

    def apply(self, parent: Any, **kwargs: Any) -> Blueprint:
        """Make the steps, in order; those that take part are then in ``parent.steps``."""
        self.steps = self.claim_steps()
        self.order = [cls(parent, **kwargs) for cls in self._finalize_steps(self.steps)]
        self.steps = {step.name: step for step in self.order}
        for step in self.order:
            step.include(parent)
        return self

    def connect_with(self, other: Blueprint) -> None:
        """Take the steps of another blueprint into `graph`, all before the last one of this: a
        worker has its receiving side in it. Both have been applied."""
        self.graph.connect(other.graph)
        if self.order and other.order:
            self.graph.add_edge(type(self.order[-1]), type(other.order[-1]))

    def _find_last(self) -> Any:
        """The step that comes behind all; ``None`` if there is none."""
        return next((step for step in self.steps.values() if step.last), None)

    def _finalize_steps(self, steps: dict[str, Any]) -> list[Any]:
        """The classes, each behind those that it requires, which are added to ``steps``;
        `graph` is made of them. Raises ``ImportError`` for one that is not there."""
        waiting = list(steps.values())
        while waiting:
            for name, cls in map(self.load_step, waiting.pop().requires):
                if name not in steps:
                    steps[name] = cls
                    waiting.append(cls)
        pairs = []
        for _, cls in sorted(steps.items()):
            required = dict(map(self.load_step, cls.requires))
            if cls.last:
                required.update({name: one for name, one in steps.items() if not one.last})
            pairs.append((cls, [one for _, one in sorted(required.items())]))
        self.graph = DependencyGraph(pairs, formatter=self.GraphFormatter(root=self._find_last()))
        try:
            return self.graph.topsort()
        except CycleError as error:
            raise ValueError(f"steps of {self.name} require each other: {error}") from None

    # -- its life ----------------------------------------------------------------------------

    def start(self, parent: Any) -> None:
        """Start the steps; raises what one of them raises."""
        self.state = RUN
        if self.on_start:
            self.on_start()
        for number, step in enumerate(parent.steps, 1):
            debug("| %s: Starting %s", self.name, step.alias)
            self.started = number
            step.start(parent)

    def human_state(self) -> str:
        return self.state_to_name[self.state or 0]

    def info(self, parent: Any) -> dict[str, Any]:
        told: dict[str, Any] = {}
        for step in parent.steps:
            told.update(step.info(parent) or {})
        return told

    def close(self, parent: Any) -> None:
        if self.on_close:
            self.on_close()
        self.send_all(parent, "close", "closing", reverse=False)

    def restart(
        self,
        parent: Any,
        method: str = "stop",
        description: str = "restarting",
        propagate: bool = False,
    ) -> None:
        """Stop the steps, the last one first, so that they can be started again."""
        self.send_all(parent, method, description, propagate=propagate)

    def send_all(
        self,
        parent: Any,
        method: str,
        description: str | None = None,
        reverse: bool = True,
        propagate: bool = True,
        args: Any = (),
    ) -> None:
        """Call a method of every step that has it, the last one first. Where the start was
        interrupted, steps that were not started are closed, and nothing else."""
        started = list(parent.steps)
        if self.started and method != "close":
            started = started[: self.started]
        for step in reversed(started) if reverse else started:
            call = getattr(step, method, None)
            if call is None:
                continue
            debug("| %s: %s %s", self.name, (description or method).capitalize(), step.alias)
            try:
                call(parent, *args)
            except Exception as error:
                if propagate:
                    raise
                logger.exception("Error on %s %s: %r", description or method, step.alias, error)

    def stop(self, parent: Any, close: bool = True, terminate: bool = False) -> None:
        """Stop the steps, the last one first. One that fails is logged; the others go on."""
        if self.state in (CLOSE, TERMINATE):
            return
        how = ("terminate", "terminating") if terminate else ("stop", "stopping")
        if self.state == RUN:
            if close:
                self.close(parent)
            self.state = TERMINATE if terminate else CLOSE
            self.restart(parent, *how)
        if self.on_stopped:
            self.on_stopped()
        self.state = TERMINATE
        self.shutdown_complete.set()

    def join(self, timeout: float | None = None) -> None:
        """Wait until it has stopped, for so many seconds at most."""
        with suppress(*IGNORE_ERRORS):
            self.shutdown_complete.wait(timeout=timeout)

    @property
    def alias(self) -> str:
        return str(self.name).rpartition(".")[2]

    def __getitem__(self, name: str) -> Any:
        return self.steps[name]
