"""One message for one task, as a worker has received it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kombu.utils.objects import cached_property

from celery.app.task import Context
from celery.utils.log import get_logger
from celery.utils.nodenames import gethostname
from celery.utils.saferepr import saferepr

__all__ = ("Request",)

logger = get_logger(__name__)


def noop(*args: Any, **kwargs: Any) -> None:
    """Does nothing."""


class Request:
    """What ``task_received`` hands out. ``message`` has ``headers``, ``properties``,
    ``delivery_info`` and ``payload`` (args, kwargs, embed), like kombu's."""

    acknowledged = False
    time_start: float | None = None
    worker_pid: int | None = None
    time_limits: tuple[float | None, float | None] = (None, None)

    def __init__(
        self,
        message: Any,
        on_ack: Callable[..., Any] = noop,
        hostname: str | None = None,
        eventer: Any = None,
        app: Any = None,
        connection_errors: Any = None,
        request_dict: dict[str, Any] | None = None,
        task: Any = None,
        on_reject: Callable[..., Any] = noop,
        body: Any = None,
        headers: dict[str, Any] | None = None,
        decoded: bool = False,
        utc: bool = True,
        **opts: Any,
    ) -> None:
        self.message = message
        self._request_dict = dict((message.headers if headers is None else headers) or {})
        if request_dict is not None:
            self._request_dict.update(request_dict)
        given = self._request_dict
        self._body = message.body if body is None else body
        self._decoded = decoded
        self.id: str = given["id"]
        self.name: str = given.get("shadow") or given["task"]
        self.type: str = given["task"]
        self.root_id: str | None = given.get("root_id")
        self.parent_id: str | None = given.get("parent_id")
        self.app = app
        self.task = task
        self.hostname = hostname or gethostname()
        self.eventer = eventer
        self.connection_errors = connection_errors or ()
        self.on_ack = on_ack
        self.on_reject = on_reject
        self.utc = utc

    # -- the message -------------------------------------------------------------------------

    @property
    def request_dict(self) -> dict[str, Any]:
        """What ``task.request`` is made of."""
        return self._request_dict

    @property
    def body(self) -> Any:
        return self._body

    @cached_property
    def _payload(self) -> Any:
        return self._body if self._decoded else self.message.payload

    @property
    def args(self) -> Any:
        return self._payload[0]

    @property
    def kwargs(self) -> Any:
        return self._payload[1]

    @property
    def argsrepr(self) -> str | None:
        given: str | None = self._request_dict.get("argsrepr")
        return given if "argsrepr" in self._request_dict else saferepr(self.args)

    @property
    def kwargsrepr(self) -> str | None:
        given: str | None = self._request_dict.get("kwargsrepr")
        return given if "kwargsrepr" in self._request_dict else saferepr(self.kwargs)

    @property
    def task_id(self) -> str:
        return self.id

    @property
    def task_name(self) -> str:
        return self.name

    @property
    def delivery_info(self) -> dict[str, Any]:
        return dict(self.message.delivery_info)

    @property
    def eta(self) -> Any:
        return self._request_dict.get("eta")

    @property
    def expires(self) -> Any:
        return self._request_dict.get("expires")

    @property
    def reply_to(self) -> str | None:
        return self._request_dict.get("reply_to")

    @property
    def correlation_id(self) -> str | None:
        return self._request_dict.get("correlation_id")

    @property
    def ignore_result(self) -> bool:
        return bool(self._request_dict.get("ignore_result"))

    @property
    def group(self) -> str | None:
        return self._request_dict.get("group")

    @property
    def chord(self) -> Any:
        """The body of the chord whose header it is in, as the message has it."""
        return self._payload[2].get("chord")

    @property
    def replaced_task_nesting(self) -> int:
        """How many tasks have stood in its place before."""
        return int(self._request_dict.get("replaced_task_nesting") or 0)

    @property
    def errbacks(self) -> Any:
        return self._request_dict.get("errbacks")

    @property
    def stamped_headers(self) -> list[str]:
        """Names of the headers that are stamps."""
        return list(self._request_dict.get("stamped_headers") or ())

    @property
    def stamps(self) -> dict[str, Any]:
        """The stamps, by name."""
        stamps = self._request_dict.get("stamps") or {}
        return {name: stamps.get(name) for name in self.stamped_headers}

    @cached_property
    def _context(self) -> Any:
        return Context(self._request_dict, args=self.args, kwargs=self.kwargs)

    # -- its fate ----------------------------------------------------------------------------

    def acknowledge(self) -> None:
        """Say that the message is done with. The engine settles its jobs by itself."""
        if not self.acknowledged:
            self.acknowledged = True
            self.on_ack(logger, self.connection_errors)

    def reject(self, requeue: bool = False) -> None:
        """Refuse the message."""
        if not self.acknowledged:
            self.acknowledged = True
            self.on_reject(logger, self.connection_errors, requeue)

    # -- in words ----------------------------------------------------------------------------

    def info(self, safe: bool = False) -> dict[str, Any]:
        """What remote control tells of the request; ``safe``: arguments as text."""
        return {
            "id": self.id,
            "name": self.name,
            "args": self.argsrepr if safe else self.args,
            "kwargs": self.kwargsrepr if safe else self.kwargs,
            "type": self.type,
            "hostname": self.hostname,
            "time_start": self.time_start,
            "acknowledged": self.acknowledged,
            "delivery_info": self.delivery_info,
            "worker_pid": self.worker_pid,
        }

    def humaninfo(self) -> str:
        return f"{self.name}[{self.id}]"

    def __str__(self) -> str:
        extra = [f"ETA:[{self.eta}]"] if self.eta else []
        extra += [f"expires:[{self.expires}]"] if self.expires else []
        return " ".join([self.humaninfo(), *extra])

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.humaninfo()} {self.argsrepr} {self.kwargsrepr}>"
