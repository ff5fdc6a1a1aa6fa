"""A picture of the cluster, made from events: workers, tasks, and which task runs where.

>>> state = app.events.State()
>>> receiver = app.events.Receiver(connection, handlers={"*": state.event})
>>> receiver.capture(limit=None, timeout=None)

Events may come late and out of order: tasks are ordered by the logical clock that workers keep,
and an event that is older than what is known of a task adds to it, without setting it back.
"""

from __future__ import annotations

import threading
from bisect import insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from time import time
from typing import Any, ClassVar
from warnings import warn
from weakref import WeakSet, ref

from kombu.clocks import timetuple
from kombu.utils.functional import LRUCache

from celery import states

__all__ = ("State", "Task", "Worker", "heartbeat_expires")

HEARTBEAT_EXPIRE_WINDOW = 200
"""After how many hundredths of the time between two heartbeats a worker is given up."""
HEARTBEAT_DRIFT_MAX = 16
"""Seconds between the clocks of two machines from which on people are warned."""

DRIFT_WARNING = (
    "Substantial drift from {}: its clock and the one here are {} seconds apart (sent at {}, "
    "received at {}); set both by one time server"
)
DRIFTS_TOLD = 1000

TASK_EVENT_TO_STATE = {
    "sent": states.PENDING,
    "received": states.RECEIVED,
    "started": states.STARTED,
    "failed": states.FAILURE,
    "retried": states.RETRY,
    "succeeded": states.SUCCESS,
    "revoked": states.REVOKED,
    "rejected": states.REJECTED,
}

UNKNOWN: Any = None
"""What an attribute is that no event has told of."""

_drifting = LRUCache(limit=DRIFTS_TOLD)


def heartbeat_expires(
    timestamp: Any,
    freq: Any = 60,
    expire_window: Any = 200,
    Decimal: type = Decimal,  # noqa: N803  # Celery's name
    float: Callable[[Any], Any] = float,
    isinstance: Callable[..., bool] = isinstance,
) -> Any:
    """When a worker is given up that was heard last at ``timestamp``; ``freq`` is how many seconds
    are between its heartbeats."""
    exact = [float(one) if isinstance(one, Decimal) else one for one in (timestamp, freq)]
    return exact[0] + exact[1] * expire_window / 100


def _warn_drift(hostname: str | None, drift: float, received: float, sent: float) -> None:
    """Once for each worker."""
    if hostname not in _drifting:
        _drifting[hostname] = True
        warn(DRIFT_WARNING.format(hostname, drift, sent, received), stacklevel=4)


class _Compared:
    """What is the same if one attribute is: the one that ``_key`` names."""

    _key: ClassVar[str]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, type(self)):
            return bool(getattr(self, self._key) == getattr(other, self._key))
        return NotImplemented

    def __hash__(self) -> int:
        return hash(getattr(self, self._key))


class Worker(_Compared):
    """What is known of one worker; everything that its events say becomes an attribute.

    ``heartbeats`` are the last instants at which it was heard, by the clock here.
    """

    _key = "hostname"
    _fields = (
        *("hostname", "pid", "freq", "heartbeats", "clock", "active", "processed"),
        *("loadavg", "sw_ident", "sw_ver", "sw_sys"),
    )
    heartbeat_max = 4
    expire_window = HEARTBEAT_EXPIRE_WINDOW
    hostname: str | None
    pid: int | None
    freq: float
    heartbeats: list[float]
    clock: int

    def __init__(
        self,
        hostname: str | None = None,
        pid: int | None = None,
        freq: float = 60,
        heartbeats: list[float] | None = None,
        clock: int = 0,
        active: int | None = None,
        processed: int | None = None,
        loadavg: Any = None,
        sw_ident: str | None = None,
        sw_ver: str | None = None,
        sw_sys: str | None = None,
    ) -> None:
        said = (freq, [] if heartbeats is None else heartbeats, clock or 0, active, processed)
        system = (loadavg, sw_ident, sw_ver, sw_sys)
        vars(self).update(zip(self._fields, (hostname, pid, *said, *system), strict=True))

    def event(
        self,
        type_: str | None,
        timestamp: float | None = None,
        local_received: float | None = None,
        fields: Mapping[str, Any] | None = None,
    ) -> None:
        """Take in an event: ``type_`` is what comes after ``worker-``, times are epoch seconds."""
        vars(self).update(fields or {})
        if type_ == "offline":
            self.heartbeats[:] = []
            return
        if not local_received or not timestamp:
            return
        drift = abs(int(local_received) - int(timestamp))
        if drift > HEARTBEAT_DRIFT_MAX:
            _warn_drift(self.hostname, drift, local_received, timestamp)
        insort(self.heartbeats, local_received)
        del self.heartbeats[: -self.heartbeat_max]

    def update(self, f: Mapping[str, Any], **kw: Any) -> None:
        """Set attributes."""
        vars(self).update(f, **kw)

    @property
    def status_string(self) -> str:
        return "ONLINE" if self.alive else "OFFLINE"

    @property
    def heartbeat_expires(self) -> float:
        """When it is given up, in epoch seconds."""
        at: float = heartbeat_expires(self.heartbeats[-1], self.freq, self.expire_window)
        return at

    @property
    def alive(self) -> bool:
        """Whether it was heard lately."""
        return bool(self.heartbeats) and time() < self.heartbeat_expires

    @property
    def id(self) -> str:
        return f"{self.hostname}.{self.pid}"

    def __repr__(self) -> str:
        return f"<Worker: {self.hostname} ({self.status_string} clock:{self.clock})>"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, name) for name in self._fields)


class Task(_Compared):
    """What is known of one task; everything that its events say becomes an attribute.

    ``received``, ``started`` and the other names of events are when that was (epoch seconds),
    ``timestamp`` is when the last was. ``worker`` is a `Worker`, ``client`` the name of the
    process that sent the task.
    """

    _key = "uuid"
    _fields = (
        *("uuid", "name", "state", "received", "sent", "started", "rejected", "succeeded"),
        *("failed", "retried", "revoked", "args", "kwargs", "eta", "expires", "retries"),
        *("worker", "result", "exception", "timestamp", "runtime", "traceback", "exchange"),
        *("routing_key", "clock", "client", "root", "root_id", "parent", "parent_id", "children"),
    )
    _info_fields = (
        *("args", "kwargs", "retries", "result", "eta", "runtime", "expires", "exception"),
        *("exchange", "routing_key", "root_id", "parent_id"),
    )
    merge_rules: ClassVar[dict[str, tuple[str, ...]]] = {
        states.RECEIVED: (
            *("name", "args", "kwargs", "parent_id", "root_id", "retries", "eta", "expires"),
        ),
    }
    """Of an event that comes late, by its state, the fields that are news; otherwise all are."""

    name = received = sent = started = rejected = succeeded = failed = retried = revoked = UNKNOWN
    args = kwargs = eta = expires = retries = worker = result = exception = timestamp = UNKNOWN
    runtime = traceback = exchange = routing_key = root_id = parent_id = client = UNKNOWN
    state = states.PENDING
    clock = 0

    def __init__(
        self,
        uuid: str | None = None,
        cluster_state: Any = None,
        children: Iterable[Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self.uuid = uuid
        self.cluster_state = cluster_state
        # Weak, like all that refers to a task: how many are kept is decided in one place.
        of_state = getattr(cluster_state, "tasks", {})
        known = [of_state.get(child) for child in children or ()]
        self.children: WeakSet[Any] = WeakSet(child for child in known if child is not None)
        vars(self).update(kwargs)

    def event(
        self,
        type_: str,
        timestamp: float | None = None,
        local_received: float | None = None,
        fields: Mapping[str, Any] | None = None,
        precedence: Callable[[str], int] = states.precedence,
        setattr: Callable[..., None] = setattr,
        task_event_to_state: Callable[[str], str | None] = TASK_EVENT_TO_STATE.get,
        RETRY: str = states.RETRY,  # noqa: N803  # Celery's name
    ) -> None:
        """Take in an event: ``type_`` is what comes after ``task-``, times are epoch seconds."""
        known: Any = task_event_to_state(type_)
        state: str = known or type_.upper()
        news = dict(fields or {})
        if known is not None:
            setattr(self, type_, timestamp)
        late = precedence(state) > precedence(self.state)
        if late and RETRY not in (state, self.state):
            rule = self.merge_rules.get(state)
            if rule is not None:
                news = {name: value for name, value in news.items() if name in rule}
            news.pop("timestamp", None)
        else:
            news.update(state=state, timestamp=timestamp)
        vars(self).update(news)

    def info(
        self, fields: Iterable[str] | None = None, extra: Iterable[str] | None = None
    ) -> dict[str, Any]:
        """What is known of these attributes (the most telling ones), and of ``extra``."""
        names = [*(self._info_fields if fields is None else fields), *(extra or ())]
        found = {name: getattr(self, name, None) for name in names}
        return {name: value for name, value in found.items() if value is not None}

    def as_dict(self) -> dict[str, Any]:
        """Everything, with other tasks as their ids."""
        found = {name: getattr(self, name) for name in self._fields}
        found["children"] = [child.uuid for child in self.children]
        for name in ("parent", "root"):
            found[name] = getattr(found[name], "uuid", None)
        return found

    @property
    def id(self) -> str | None:
        return self.uuid

    @property
    def ready(self) -> bool:
        """Whether it is over."""
        return self.state in states.READY_STATES

    @property
    def origin(self) -> Any:
        """Who told of it: the worker, or else the client."""
        return self.client if self.worker is None else self.worker.id

    @property
    def parent(self) -> Any:
        """The task that called it, if that is known."""
        return vars(self).get("_parent") or self._other(self.parent_id)

    @parent.setter
    def parent(self, task: Any) -> None:
        vars(self)["_parent"] = task

    @property
    def root(self) -> Any:
        """The task that all began with, if that is known."""
        return vars(self).get("_root") or self._other(self.root_id)

    @root.setter
    def root(self, task: Any) -> None:
        vars(self)["_root"] = task

    def _other(self, uuid: str | None) -> Any:
        return uuid and getattr(self.cluster_state, "tasks", {}).get(uuid)

    def __repr__(self) -> str:
        return f"<Task: {self.name}({self.uuid}) {self.state} clock:{self.clock}>"

    def __reduce__(self) -> tuple[Any, ...]:
        left_out = ("children", "cluster_state", "_parent", "_root")
        known = {name: value for name, value in vars(self).items() if name not in left_out}
        return _restored_task, (type(self), known)


def _restored_task(cls: type[Task], known: dict[str, Any]) -> Task:
    return cls(**known)


class _Index(defaultdict[str, Any]):
    """Tasks by something: ``index[key]`` is a set, ``index(key)`` gives them the newest first."""

    def __init__(self, ordered: Callable[..., Iterator[Any]]) -> None:
        super().__init__(WeakSet)
        self._ordered = ordered

    def __call__(
        self, key: str, limit: int | None = None, reverse: bool = True
    ) -> Iterator[tuple[str, Task]]:
        members = self.get(key, ())
        return _first(
            limit, (pair for pair in self._ordered(reverse=reverse) if pair[1] in members)
        )


def _first(limit: int | None, found: Iterable[Any]) -> Iterator[Any]:
    for number, each in enumerate(found, start=1):
        yield each
        if limit and number >= limit:
            return


# `State` has attributes of their names.
_Worker = Worker
_Task = Task


class State:
    """Every worker and task that was heard of, the last ``max_workers_in_memory`` and
    ``max_tasks_in_memory`` of them.

    ``callback(state, event)`` is called before each event is taken in; ``on_node_join(worker)``
    and ``on_node_leave(worker)`` when a worker comes and goes. A worker that has gone is kept,
    as offline, unless there is an ``on_node_leave``. May be used from several threads, and be
    pickled. A subclass may have further groups of events: ``foo_event(subject, event)``.
    """

    Worker = Worker
    Task = Task
    heap_multiplier = 4
    """So many events are remembered for each task."""

    def __init__(
        self,
        callback: Callable[[State, dict[str, Any]], Any] | None = None,
        workers: Any = None,
        tasks: Any = None,
        taskheap: list[Any] | None = None,
        max_workers_in_memory: int = 5000,
        max_tasks_in_memory: int = 10000,
        on_node_join: Callable[[_Worker], Any] | None = None,
        on_node_leave: Callable[[_Worker], Any] | None = None,
        tasks_by_type: Mapping[str, Iterable[str]] | None = None,
        tasks_by_worker: Mapping[str, Iterable[str]] | None = None,
    ) -> None:
        self.event_callback = callback
        self.max_workers_in_memory = max_workers_in_memory
        self.max_tasks_in_memory = max_tasks_in_memory
        self.on_node_join = on_node_join
        self.on_node_leave = on_node_leave
        self.workers: Any = _limited(max_workers_in_memory, workers)
        self.tasks: Any = _limited(max_tasks_in_memory, tasks)
        self._taskheap: list[Any] = [] if taskheap is None else taskheap
        self._mutex = threading.RLock()
        self.event_count = 0
        self.task_count = 0
        self._seen_types: set[str] = set()
        self._tasks_to_resolve: Any = LRUCache(limit=max_tasks_in_memory)
        known = dict(self.tasks.items())  # a look-up in `tasks` changes their order
        self.tasks_by_type = _Index(self.tasks_by_time)
        self.tasks_by_worker = _Index(self.tasks_by_time)
        for index, given in (
            (self.tasks_by_type, tasks_by_type),
            (self.tasks_by_worker, tasks_by_worker),
        ):
            for key, ids in (given or {}).items():
                index[key].update(known[each] for each in ids if each in known)
        for task in known.values():
            task.cluster_state = self
            self._place(task)
        if taskheap is None:
            self.rebuild_taskheap()

    # -- taking in ---------------------------------------------------------------------------

    def event(self, event: dict[str, Any]) -> Any:
        """Take in an event; gives ((worker or task, whether it is new), subject), or ``None``."""
        with self._mutex:
            self.event_count += 1
            if self.event_callback is not None:
                self.event_callback(self, event)
            group, _, subject = event["type"].partition("-")
            handler = getattr(self, f"{group}_event", None)
            answer = handler and handler(subject, event)
            return answer and (answer, subject)

    def worker_event(self, type_: str, fields: dict[str, Any]) -> tuple[_Worker, bool] | None:
        """Take in an event of a worker: ``type_`` is what comes after ``worker-``."""
        hostname = fields.get("hostname")
        if hostname is None:
            return None
        with self._mutex:
            leaves = type_ == "offline"
            if leaves:  # one that nobody knew is not worth remembering
                worker, created = self.workers.get(hostname) or self.Worker(hostname), False
            else:
                worker, created = self.get_or_create_worker(hostname)
            worker.event(type_, fields.get("timestamp"), fields.get("local_received"), fields)
            if leaves and self.on_node_leave is not None:
                self.workers.pop(hostname, None)
                self.on_node_leave(worker)
            elif (created or type_ == "online") and self.on_node_join is not None:
                self.on_node_join(worker)
            return worker, created

    def task_event(self, type_: str, fields: dict[str, Any]) -> tuple[_Task, bool] | None:
        """Take in an event of a task: ``type_`` is what comes after ``task-``."""
        uuid, hostname = fields.get("uuid"), fields.get("hostname")
        if uuid is None or hostname is None:
            return None
        timestamp, received = fields.get("timestamp"), fields.get("local_received")
        with self._mutex:
            task, created = self.get_or_create_task(uuid)
            if type_ == "sent":
                task.client = origin = hostname
            else:
                worker, _ = self.get_or_create_worker(hostname)
                worker.event(None, timestamp, received)
                task.worker, origin = worker, worker.id
                self.tasks_by_worker[hostname].add(task)
            if type_ == "received":
                self.task_count += 1
            task.event(type_, timestamp, received, fields)
            self._remember(task, fields.get("clock") or 0, timestamp or 0.0, origin)
            self._place(task)
            return task, created

    def get_or_create_worker(self, hostname: str, **kwargs: Any) -> tuple[_Worker, bool]:
        """The worker of that name, with these attributes, and whether it is new."""
        worker = self.workers.get(hostname)
        if worker is not None:
            worker.update(kwargs)
            return worker, False
        worker = self.workers[hostname] = self.Worker(hostname, **kwargs)
        return worker, True

    def get_or_create_task(self, uuid: str) -> tuple[_Task, bool]:
        """The task with that id, and whether it is new."""
        task = self.tasks.get(uuid)
        if task is not None:
            return task, False
        task = self.tasks[uuid] = self.Task(uuid, cluster_state=self)
        return task, True

    def _remember(self, task: _Task, clock: int, timestamp: float, origin: Any) -> None:
        """Put an event where the logical clock says it belongs: mostly at the end."""
        insort(self._taskheap, timetuple(clock, timestamp, origin, ref(task)))
        most = self.max_tasks_in_memory * self.heap_multiplier
        del self._taskheap[:-most]

    def _place(self, task: _Task) -> None:
        """Among the tasks of its type, and among those that its parent has called."""
        if task.name:
            self._seen_types.add(task.name)
            self.tasks_by_type[task.name].add(task)
        if task.parent_id:
            parent = self.tasks.get(task.parent_id)
            if parent is None:
                self._add_pending_task_child(task)
            else:
                parent.children.add(task)
        waiting = self._tasks_to_resolve.pop(task.uuid, None)
        if waiting is not None:
            task.children.update(waiting)

    def _add_pending_task_child(self, task: _Task) -> None:
        waiting = self._tasks_to_resolve.get(task.parent_id)
        if waiting is None:
            waiting = self._tasks_to_resolve[task.parent_id] = WeakSet()
        waiting.add(task)

    def rebuild_taskheap(self, timetuple: Callable[..., Any] = timetuple) -> None:
        """Order the tasks anew, by what is known of each."""
        with self._mutex:
            self._taskheap[:] = sorted(
                timetuple(task.clock or 0, task.timestamp or 0.0, task.origin or "", ref(task))
                for task in self.tasks.values()
            )

    # -- forgetting --------------------------------------------------------------------------

    def clear(self, ready: bool = True) -> None:
        """Forget workers, counts, and tasks: those that are over, or all."""
        with self._mutex:
            self._clear(ready)

    def clear_tasks(self, ready: bool = True) -> None:
        """Forget the tasks that are over, or all."""
        with self._mutex:
            self._clear_tasks(ready)

    def _clear(self, ready: bool = True) -> None:
        self.workers.clear()
        self._clear_tasks(ready)
        self.event_count = self.task_count = 0

    def _clear_tasks(self, ready: bool = True) -> None:
        """Called whenever tasks are forgotten together; flower overrides it."""
        kept = [task for task in self.tasks.values() if ready and not task.ready]
        self.tasks.clear()
        for task in kept:
            self.tasks[task.uuid] = task
        self.rebuild_taskheap()

    def freeze_while(self, fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function while nothing is taken in; with ``clear_after``, then `clear`."""
        clear_after = kwargs.pop("clear_after", False)
        with self._mutex:
            try:
                return fun(*args, **kwargs)
            finally:
                if clear_after:
                    self.clear()

    # -- asking ------------------------------------------------------------------------------

    def itertasks(self, limit: int | None = None) -> Iterator[tuple[str, _Task]]:
        """(id, task), in the order in which they were first heard of."""
        return _first(limit, [*self.tasks.items()])  # a look-up changes the order

    def tasks_by_time(
        self, limit: int | None = None, reverse: bool = True
    ) -> Iterator[tuple[str, _Task]]:
        """(id, task), the one that was heard of last first; ``reverse=False``: the other way."""
        with self._mutex:
            events = list(self._taskheap)
        if reverse:
            events.reverse()
        tasks = (event[3]() for event in events)
        # An id once more is an older event of the same task.
        seen = dict.fromkeys(task for task in tasks if task is not None)
        return _first(limit, ((task.uuid, task) for task in seen))

    tasks_by_timestamp = tasks_by_time

    def task_types(self) -> list[str]:
        """The names of all tasks that were heard of."""
        return sorted(self._seen_types)

    def alive_workers(self) -> Iterator[_Worker]:
        """The workers that were heard lately."""
        return (worker for worker in list(self.workers.values()) if worker.alive)

    def __repr__(self) -> str:
        return f"<State: events={self.event_count} tasks={self.task_count}>"

    def __reduce__(self) -> tuple[Any, ...]:
        with self._mutex:
            indexes = [
                {key: [task.uuid for task in index[key]] for key in index}
                for index in (self.tasks_by_type, self.tasks_by_worker)
            ]
            return type(self), (
                self.event_callback,
                dict(self.workers.items()),
                dict(self.tasks.items()),
                None,
                self.max_workers_in_memory,
                self.max_tasks_in_memory,
                self.on_node_join,
                self.on_node_leave,
                *indexes,
            )


def _limited(limit: int, given: Any) -> Any:
    """A mapping that forgets what was used least; one that somebody made is taken as it is."""
    if isinstance(given, LRUCache):
        return given
    made = LRUCache(limit=limit)
    made.update(given or {})
    return made
