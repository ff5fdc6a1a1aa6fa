"""What a running task may do with the workflow that it is part of: replace itself by a canvas,
and add to the group that it is in."""

from __future__ import annotations

from typing import Any

from kombu.utils.functional import maybe_list
from kombu.utils.json import dumps, loads

from celery.canvas import _chain, _chord, group, maybe_signature
from celery.exceptions import Ignore, ImproperlyConfigured
from taskmq_celery.graph import Place
from taskmq_celery.message import Member
from taskmq_celery.running import GROWTH

from .publishing import graph_of

__all__ = ("Replaced", "add_member", "member_graph", "replacement", "start_replacement")


class Replaced(Ignore):
    """Ends a task that has replaced itself. The jobs of ``graph`` are stored in the step that
    settles the task; if that never happens, because the worker is lost, they never were."""

    def __init__(self, graph: Any) -> None:
        super().__init__("Replaced by new task")
        self.graph = graph


def replacement(task: Any, sig: Any) -> Any:
    """A canvas made ready to give the result of the running ``task``.

    Raises `ImproperlyConfigured` for a chain of nothing.
    """
    request, app = task.request, task.app
    sig = maybe_signature(sig, app=app)
    if _is_nothing(sig):
        raise ImproperlyConfigured("Cannot replace with an empty chain")
    sig = _with_one_end(app, sig)
    for callback in maybe_list(request.callbacks) or ():
        sig.link(callback)
    for errback in maybe_list(request.errbacks) or ():
        sig.link_error(maybe_signature(errback, app=app, clone=True))
    for step in reversed(request.chain or ()):
        sig = sig | maybe_signature(step, app=app)
    sig.set(
        group_id=request.group,
        group_index=request.group_index,
        root_id=request.root_id,
        replaced_task_nesting=request.get("replaced_task_nesting", 0) + 1,
    )
    if request.chord is not None:
        sig.set(chord=request.chord)
    sig.freeze(request.id)
    return sig


def start_replacement(task: Any, sig: Any) -> Any:
    """End the running task in favour of ``sig``; eagerly, give the result of that."""
    request = task.request
    if request.is_eager:
        return sig.apply().get()
    if GROWTH not in vars(request):  # it runs, but not in a worker of this engine
        sig.delay()
        raise Ignore("Replaced by new task")
    raise Replaced(graph_of(task.app, sig, place=_place(request), taken=frozenset({request.id})))


def add_member(task: Any, sig: Any, *, lazy: bool) -> Any:
    """Let whoever waits for the group of the running task wait for ``sig`` too, and get its
    result. Gives the result to come, or with ``lazy`` the signature, which is added when it is
    called: by the running task, before it returns.

    Raises ``ValueError`` if nobody waits for the group.
    """
    request, app = task.request, task.app
    if not request.chord:
        raise ValueError("Current task is not member of any chord")
    sig.set(group_id=request.group, chord=request.chord, root_id=request.root_id)
    result = sig.freeze()
    growth = vars(request).get(GROWTH)
    if growth is None:
        app.backend.add_to_chord(request.group, result)
        return sig if lazy else sig.delay()
    place = _place(request)

    def join(args: Any = (), kwargs: Any = None, **options: Any) -> Any:
        given = sig.clone(args, kwargs, **options)
        growth.add(Member(dumps(_with_one_end(app, given)), place))
        return result

    if not lazy:
        return join()
    sig.apply_async = join
    return sig


def member_graph(app: Any, signature: str, place: dict[str, Any]) -> Any:
    """The jobs of what `add_member` has added."""
    return graph_of(app, maybe_signature(loads(signature), app=app), place=Place(**place))


def _is_nothing(sig: Any) -> bool:
    """Whether it is a chain of nothing, or of such chains."""
    return isinstance(sig, _chain) and all(map(_is_nothing, sig.tasks))


def _with_one_end(app: Any, sig: Any) -> Any:
    """A canvas that gives one result: of a group, the list."""
    return sig | app.tasks["celery.accumulate"].s(index=0) if _ends_as_group(sig) else sig


def _ends_as_group(sig: Any) -> bool:
    """Whether it is a group, or a chain or a chord with one at its end. A chord whose body is empty
    gives what its header does."""
    if isinstance(sig, _chain):
        return bool(sig.tasks) and _ends_as_group(sig.tasks[-1])
    if isinstance(sig, _chord):
        return _is_nothing(sig.body) or _ends_as_group(sig.body)
    return isinstance(sig, group)


def _place(request: Any) -> Place:
    """Of a task that stands where the running one stands."""
    return Place(
        root_id=request.root_id,
        parent_id=request.id,
        group_id=request.group,
        group_index=request.group_index,
        chord=request.chord,
    )
