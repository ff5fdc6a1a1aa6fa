"""A job in the hands of a worker, before anything of it has run."""

from __future__ import annotations

from typing import Any

from taskmq import App, TaskContext
from taskmq.envelope import Envelope
from taskmq.inputs import inject
from taskmq.transport import Delivery

from .message import request_dict, stamps_of

__all__ = ["Received"]


class Received:
    """A job as a worker was handed it. What is in it is decoded when it is asked for."""

    __slots__ = ("_app", "_context", "_envelope", "_eta", "delivery")

    def __init__(
        self,
        app: App,
        delivery: Delivery,
        envelope: Envelope,
        worker: str,
        *,
        eta: float | None = None,
    ) -> None:
        """``eta``: when it is due, if that is another time than the caller said."""
        self.delivery = delivery
        self._app = app
        self._envelope = envelope
        self._eta = eta
        self._context = TaskContext(app, delivery, envelope, worker=worker, clock=app.clock)

    @property
    def id(self) -> str:
        return self.delivery.job_id

    @property
    def name(self) -> str:
        """The task's name."""
        return self._envelope.task

    @property
    def queue(self) -> str:
        return self.delivery.queue

    @property
    def eta(self) -> float | None:
        """Epoch seconds."""
        return self._eta or self._envelope.eta

    @property
    def expires_at(self) -> float | None:
        """Epoch seconds."""
        return self._envelope.expires_at

    @property
    def first_time(self) -> bool:
        """Whether it was not offered to a worker in vain before."""
        return self.delivery.parked_at is None

    @property
    def keeps_result(self) -> bool:
        """Whether anybody wants what it returns."""
        return self._envelope.store_result or self._envelope.feeds

    @property
    def codec(self) -> str:
        """How its arguments are encoded, and its result is to be."""
        return self._envelope.codec

    @property
    def stamps(self) -> dict[str, set[Any]]:
        """The stamps that it was given, by name."""
        return stamps_of(self._envelope.headers)

    @property
    def request(self) -> dict[str, Any]:
        """What ``task.request`` will be made of."""
        return request_dict(self._context)

    @property
    def arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """With what the jobs before it have handed over. Raises `taskmq.errors.DecodeError`."""
        app, envelope = self._app, self._envelope
        args, kwargs = app.arguments_of(envelope)
        if not envelope.after:
            return args, kwargs
        return inject(self.delivery, envelope, app.codecs.decode, args, kwargs)
