"""One job, as people or scripts want to see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from taskmq import App
from taskmq.codec import BUILT_IN
from taskmq.diagnose import in_words
from taskmq.envelope import Envelope, load
from taskmq.errors import MessageError
from taskmq.records import JobRecord
from taskmq.references import OFFLOADED

from .offloaded import shown_envelope, shown_result
from .output import Printer
from .values import payload_text, shorten

__all__ = ["as_document", "show_facts", "show_history"]


def show_facts(job: JobRecord, printer: Printer, app: App) -> None:
    """State, counters, arguments and instants."""
    now = app.clock.now()

    def instant(at: float | None) -> str:
        if at is None:
            return ""
        distance = f"in {in_words(at - now)}" if at > now else f"{in_words(now - at)} ago"
        return f"{printer.instant(at)} ({distance})"

    envelope, where = _envelope(job.envelope), ""
    if envelope is not None:
        envelope, where = shown_envelope(app, envelope)
    result = None if job.result is None else shown_result(app, job.result)
    printer.heading(f"{job.id}  {job.task}")
    printer.facts(
        {
            "state": job.state + (", asked to stop" if job.cancel_requested else ""),
            "queue": f"{job.queue}, priority {job.priority}",
            "attempt": job.attempt,
            "deliveries": job.deliveries,
            "workers lost": f"{job.reclaims} of {job.max_deliveries}" if job.reclaims else "",
            "args": _arguments(envelope, "args"),
            "kwargs": _arguments(envelope, "kwargs"),
            "payload": where,
            "key": envelope.key if envelope else "",
            "dedup": envelope.dedup if envelope else "",
            "headers": envelope.headers or "" if envelope else "",
            "raw bytes": "" if envelope or not job.envelope else repr(job.envelope[:200]),
            "enqueued": instant(job.enqueued_at),
            "visible": instant(job.visible_at) if job.finished_at is None else "",
            "expires": instant(job.expires_at),
            "started": instant(job.started_at),
            "finished": instant(job.finished_at),
            "lease until": instant(job.lease_until),
            "worker": job.worker,
            "parked": job.parked_reason,
            "dead": job.dead_reason,
            "revoked": _revoked(job, instant),
            "workflow": job.workflow,
            "result": "" if result is None else shorten(payload_text(result)),
        }
    )


def show_history(job: JobRecord, printer: Printer) -> None:
    """The attempts that did not succeed, and the last traceback."""
    if job.history:
        printer.line()
        printer.heading("History")
        rows = [
            (printer.instant(each.at), each.event, each.attempt, each.worker, shorten(each.detail))
            for each in job.history
        ]
        printer.table(("WHEN", "EVENT", "ATTEMPT", "WORKER", "DETAIL"), rows)
    if job.failure is not None and job.failure.traceback:
        printer.line()
        printer.heading("Last traceback")
        for line in job.failure.traceback.rstrip().splitlines():
            printer.line(f"  {line}")


def as_document(job: JobRecord) -> dict[str, Any]:
    """All fields, with the envelope as a part of the document."""
    document = msgspec.structs.asdict(job)
    try:
        envelope: Any = msgspec.json.decode(job.envelope) if job.envelope else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        envelope = job.envelope.decode(errors="backslashreplace")
    result = None if job.result is None else {"codec": job.result.codec}
    if result is not None and job.result is not None:
        result["value"] = payload_text(job.result)
    return {**document, "envelope": envelope, "result": result}


def _revoked(job: JobRecord, instant: Callable[[float | None], str]) -> str:
    return "" if job.revoked_at is None else f"by {job.revoked_by}, {instant(job.revoked_at)}"


def _envelope(data: bytes) -> Envelope | None:
    try:
        return load(data)
    except MessageError:
        return None  # of a success, whose envelope is not kept, or damaged


def _arguments(envelope: Envelope | None, name: str) -> str:
    if envelope is None or envelope.codec == OFFLOADED:
        return ""
    text = bytes(getattr(envelope, name)).decode(errors="backslashreplace")
    return shorten(text if envelope.codec in BUILT_IN else f"{text} (base64 of {envelope.codec})")
