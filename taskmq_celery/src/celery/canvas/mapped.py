"""One task applied to many arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from celery.utils.functional import chunks as _chunks
from celery.utils.sequences import regen

from .groups import group
from .signatures import Signature, signature

if TYPE_CHECKING:
    from celery.app.base import Celery

__all__ = ("chunks", "xmap", "xstarmap")


class _basemap(Signature):  # noqa: N801  # Celery's name
    """A task applied to every item of a sequence, one after the other, as one task."""

    _task_name = ""
    __module__ = "celery.canvas"

    @classmethod
    def from_dict(cls, d: Mapping[str, Any], app: Celery | None = None) -> Any:
        inner = d["kwargs"]
        return cls(inner["task"], inner["it"], app=app, **d["options"])

    def __init__(self, task: Any, it: Any, **options: Any) -> None:
        app = options.pop("app", None)
        super().__init__(
            self._task_name,
            (),
            {"task": signature(task, app=app), "it": regen(it)},
            options,
            immutable=True,
            app=app,
        )

    def apply_async(  # type: ignore[override]  # Celery's signature
        self, args: Any = None, kwargs: Any = None, **opts: Any
    ) -> Any:
        """Call it in a worker; it goes where the mapped task would go."""
        _, given, options = self._merge(None, None, opts)
        task = given["task"]
        options = {"route_name": task["task"], **options}
        return self.type.apply_async((), {"task": task, "it": list(given["it"])}, **options)


@Signature.register_type()
class xmap(_basemap):  # noqa: N801  # Celery's name
    """``task.map([a, b])``: a list of ``task(a)`` and ``task(b)``."""

    _task_name = "celery.map"
    __module__ = "celery.canvas"

    def __repr__(self) -> str:
        return f"[{self.kwargs['task'].task}(x) for x in {self.kwargs['it']!r}]"


@Signature.register_type()
class xstarmap(_basemap):  # noqa: N801  # Celery's name
    """``task.starmap([(a, b)])``: a list of ``task(a, b)`` and so on."""

    _task_name = "celery.starmap"
    __module__ = "celery.canvas"

    def __repr__(self) -> str:
        return f"[{self.kwargs['task'].task}(*x) for x in {self.kwargs['it']!r}]"


@Signature.register_type()
class chunks(Signature):  # noqa: N801  # Celery's name
    """``task.chunks(items, n)``: a group of starmaps, each of ``n`` of the items."""

    _unpack_args = ()
    __module__ = "celery.canvas"

    @classmethod
    def from_dict(cls, d: Mapping[str, Any], app: Celery | None = None) -> Any:
        inner = d["kwargs"]
        return cls(inner["task"], inner["it"], inner["n"], app=app, **d["options"])

    def __init__(self, task: Any, it: Any, n: int, **options: Any) -> None:
        app = options.pop("app", None)
        super().__init__(
            "celery.chunks",
            (),
            {"task": signature(task, app=app), "it": regen(it), "n": n},
            options,
            immutable=True,
            app=app,
        )

    def __call__(self, **options: Any) -> Any:
        return self.apply_async(**options)

    def apply_async(  # type: ignore[override]  # Celery's signature
        self, args: Any = None, kwargs: Any = None, **opts: Any
    ) -> Any:
        """Start the chunks; gives a `GroupResult`."""
        options = {"route_name": self["kwargs"]["task"]["task"], **opts}
        return self.group().apply_async(args or (), kwargs or {}, **options)

    def group(self) -> Any:
        """The group that it stands for. Nothing is taken from the items yet."""
        task, it, n = (self["kwargs"][name] for name in ("task", "it", "n"))
        parts = (xstarmap(task, part, app=self._app) for part in _chunks(iter(it), n))
        return group(parts, app=self._app)

    @classmethod
    def apply_chunks(cls, task: Any, it: Any, n: int, app: Celery | None = None) -> Any:
        """Start the chunks of these items."""
        return cls(task, it, n, app=app)()
