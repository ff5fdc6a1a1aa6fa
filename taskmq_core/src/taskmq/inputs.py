"""What the jobs that a job waited for hand over to it, and where that goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .codec import Payload
from .envelope import Envelope
from .records import LostJob
from .transport import Delivery

__all__ = ["inject"]


def inject(
    delivery: Delivery,
    envelope: Envelope,
    decode: Callable[[Payload], Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
) -> tuple[list[Any], dict[str, Any]]:
    """Put results where the envelope says; in place of one that is lost, a `LostJob`.

    A job that runs if another failed collects those only.
    Jobs that others spawned (`TaskContext.extend`) are not in the envelope: what they give goes
    to the end of the first list that is collected, in the order of their ids.
    """
    values: dict[int | str, Any] = {}
    gathered: dict[int | str, list[Any]] = {}
    losses = delivery.losses or {}
    for dependency in envelope.after:
        if dependency.into is None:
            continue
        if not dependency.collect:
            values[dependency.into] = _value(delivery, dependency.job, decode)
            continue
        values[dependency.into] = items = gathered.setdefault(dependency.into, [])
        if envelope.run_if != "failed" or dependency.job in losses:
            items.append(_value(delivery, dependency.job, decode))
    if gathered:
        known = {dependency.job for dependency in envelope.after}
        more = {*losses, *(delivery.inputs or () if envelope.run_if != "failed" else ())} - known
        first = next(iter(gathered.values()))
        first += [_value(delivery, job_id, decode) for job_id in sorted(more)]
    positional = list(args)
    for position in sorted(place for place in values if isinstance(place, int)):
        positional.insert(position, values[position])
    return positional, {**kwargs, **{k: v for k, v in values.items() if isinstance(k, str)}}


def _value(delivery: Delivery, job_id: str, decode: Callable[[Payload], Any]) -> Any:
    payload = (delivery.inputs or {}).get(job_id)
    if payload is not None:
        return decode(payload)
    loss = (delivery.losses or {}).get(job_id)
    if loss is None:
        return None
    return LostJob(job_id=job_id, state=loss.state, reason=loss.reason, failure=loss.failure)
