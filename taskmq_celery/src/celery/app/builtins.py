"""Tasks that every app has: their names begin with ``celery.``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kombu.utils.imports import symbol_by_name

from celery._state import connect_on_app_finalize

if TYPE_CHECKING:
    from .base import Celery

__all__ = ()


@connect_on_app_finalize
def add_backend_cleanup_task(app: Celery) -> Any:
    @app.task(name="celery.backend_cleanup", shared=False, lazy=False)  # type: ignore[untyped-decorator]
    def backend_cleanup() -> None:
        app.backend.cleanup()

    return backend_cleanup


@connect_on_app_finalize
def add_accumulate_task(app: Celery) -> Any:
    @app.task(bind=True, name="celery.accumulate", shared=False, lazy=False)  # type: ignore[untyped-decorator]
    def accumulate(self: Any, *args: Any, **kwargs: Any) -> Any:
        index = kwargs.get("index")
        return args if index is None else args[index]

    return accumulate


@connect_on_app_finalize
def add_map_task(app: Celery) -> Any:
    @app.task(name="celery.map", shared=False, lazy=False)  # type: ignore[untyped-decorator]
    def xmap(task: Any, it: Any) -> list[Any]:
        function = _task_of(app, task)
        return [function(item) for item in it]

    return xmap


@connect_on_app_finalize
def add_starmap_task(app: Celery) -> Any:
    @app.task(name="celery.starmap", shared=False, lazy=False)  # type: ignore[untyped-decorator]
    def xstarmap(task: Any, it: Any) -> list[Any]:
        function = _task_of(app, task)
        return [function(*item) for item in it]

    return xstarmap


@connect_on_app_finalize
def add_chunk_task(app: Celery) -> Any:
    @app.task(name="celery.chunks", shared=False, lazy=False)  # type: ignore[untyped-decorator]
    def chunks(task: Any, it: Any, n: int) -> Any:
        return symbol_by_name("celery.canvas:chunks").apply_chunks(task, it, n, app=app)

    return chunks


@connect_on_app_finalize
def add_chain_task(app: Celery) -> Any:
    @app.task(name="celery.chain", shared=False, lazy=False)  # type: ignore[untyped-decorator]
    def chain(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("chain is not a real task")

    return chain


@connect_on_app_finalize
def add_group_task(app: Celery) -> Any:
    @app.task(name="celery.group", bind=True, shared=False, lazy=False)  # type: ignore[untyped-decorator]
    def group(
        self: Any,
        tasks: Any,
        result: Any,
        group_id: str,
        partial_args: Any,
        add_to_parent: bool = True,
    ) -> Any:
        canvas = symbol_by_name("celery.canvas:group")(tasks, app=app)
        return canvas.apply_async(partial_args, task_id=group_id, add_to_parent=add_to_parent)

    return group


@connect_on_app_finalize
def add_chord_task(app: Celery) -> Any:
    @app.task(name="celery.chord", bind=True, shared=False, lazy=False)  # type: ignore[untyped-decorator]
    def chord(self: Any, header: Any, body: Any, partial_args: Any = (), **options: Any) -> Any:
        made = symbol_by_name("celery.canvas:chord")(header, body, app=app)
        return made.apply_async(partial_args)

    return chord


def _task_of(app: Celery, task: Any) -> Any:
    return symbol_by_name("celery.canvas:signature")(task, app=app).type  # a task is one as well
