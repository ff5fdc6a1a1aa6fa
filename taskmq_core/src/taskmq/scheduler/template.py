"""What a run of a schedule is: decided once, by a program that has the task; used by any other."""

from __future__ import annotations

from datetime import datetime, timezone

import msgspec

from taskmq.app import App
from taskmq.demands import refuse_jobs
from taskmq.envelope import Envelope, Sealed
from taskmq.errors import ConfigError
from taskmq.ids import new_id
from taskmq.limits import Capacity
from taskmq.references import OFFLOADED
from taskmq.schedule import Schedule

__all__ = ["DUE_AT", "SCHEDULE", "Template", "extra_job_of", "job_of", "template_of"]

UTC = timezone.utc
SCHEDULE = "taskmq-schedule"
"""Header of a job that was scheduled: the schedule's name."""
DUE_AT = "taskmq-due-at"
"""Header: the instant it was due, as epoch seconds."""
KEY_TTL = 7 * 86_400.0
"""How long the key of a run stands for its job. A leader that was killed after it had enqueued and
before it noted that is followed by another one long before."""


class Template(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job without id and instants; those that it has are relative. What the task's policy says
    is in it, and its encoded arguments: whoever leads needs neither the task nor its modules."""

    envelope: Envelope
    capacity: Capacity | None = None


def template_of(app: App, schedule: Schedule) -> Template:
    """Raises `UnknownTask`, `MessageError`, and `ConfigError` where options or arguments do not
    fit, or the store cannot do what the task needs."""
    task = app.tasks[schedule.task]
    try:
        call = task.call(*schedule.args, **schedule.kwargs).options(**schedule.options)
    except TypeError as error:
        raise ConfigError(f"the arguments do not fit: {error}") from None
    sealed = app.seal(call, 0.0)
    refuse_jobs([sealed], app.store_name, app.transport.capabilities)
    envelope = app.fetch(sealed.envelope)
    if app.offload is not None and sealed.envelope.codec == OFFLOADED:
        app.offload.discard(sealed.envelope)  # each run has a payload of its own
    return Template(
        envelope=msgspec.structs.replace(envelope, id="", key_ttl=KEY_TTL),
        capacity=sealed.capacity,
    )


def job_of(app: App, schedule: Schedule, template: Template, due: datetime, now: float) -> Sealed:
    """The run of an instant, enqueued at ``now``. Raises `MessageError`, `PayloadUnavailable`."""
    return _sealed(
        app,
        template,
        now,
        key=f"schedule:{schedule.name}:{due.astimezone(UTC).isoformat()}",
        eta=due.timestamp() + schedule.delay(due) if schedule.jitter else None,
        headers=_headers(schedule, template, due.timestamp()),
    )


def extra_job_of(app: App, schedule: Schedule, template: Template, now: float) -> Sealed:
    """A run that is due at no instant of the schedule. Raises as `job_of` does."""
    return _sealed(app, template, now, headers=_headers(schedule, template, now))


def _headers(schedule: Schedule, template: Template, due_at: float) -> dict[str, object]:
    return {**template.envelope.headers, SCHEDULE: schedule.name, DUE_AT: due_at}


def _sealed(app: App, template: Template, now: float, **fields: object) -> Sealed:
    relative = template.envelope
    expires_at = None if relative.expires_at is None else now + relative.expires_at
    envelope = msgspec.structs.replace(
        relative, id=new_id(now), enqueued_at=now, expires_at=expires_at, **fields
    )
    sealed = app.seal_envelope(envelope)
    return Sealed(sealed.envelope, sealed.data, template.capacity)
