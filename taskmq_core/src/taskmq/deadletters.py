"""The dead letters of an app: look, mend, replay, bury."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from .envelope import Envelope, Sealed, embed, load
from .errors import UnknownJob
from .records import JobFilter, JobRecord

if TYPE_CHECKING:
    from .app import App

__all__ = ["DeadLetterBox"]

PAGE = 500


class DeadLetterBox:
    """What failed for good, with payload, reason, traceback and history. As ``app.dead_letters``.

    >>> for letter in app.dead_letters.list(queue="email"):
    ...     print(letter.id, letter.dead_reason, letter.failure.message)
    """

    def __init__(self, app: App) -> None:
        self._app = app

    def list(
        self, *, queue: str | None = None, task: str | None = None, limit: int | None = None
    ) -> Iterator[JobRecord]:
        """Dead letters, oldest first, read page by page."""
        after, left = None, limit
        while left is None or left > 0:
            page = self._app.transport.find(
                JobFilter(
                    dead=True,
                    queue=queue,
                    task=task,
                    after=after,
                    limit=PAGE if left is None else min(PAGE, left),
                )
            )
            yield from page
            if len(page) < PAGE:
                return
            after = page[-1].id
            left = None if left is None else left - len(page)

    def get(self, job_id: str) -> JobRecord:
        """Raises `UnknownJob` if that job is not in the dead letters."""
        record = self._app.transport.get([job_id])[0]
        if record is None or record.dead_reason is None:
            raise UnknownJob(f"no dead letter {job_id}")
        return record

    def replay(
        self,
        job_id: str,
        *,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        queue: str | None = None,
    ) -> None:
        """Queue a dead letter again under its own id, as attempt 1; its history stays.

        ``args``, ``kwargs`` and ``queue`` replace what the job had. An ``expires`` that has passed
        meanwhile is taken off: who replays a job wants it to run. Raises `UnknownJob`,
        `EncodeError`, `MessageTooLarge`, and `DecodeError` where one of ``args`` and ``kwargs`` is
        given and the other cannot be read; the dead letter is unchanged then.
        """
        edit = _Edit(args, kwargs, queue)
        if not self._replay([self.get(job_id)], edit):
            raise UnknownJob(f"no dead letter {job_id}")

    def replay_all(self, *, queue: str | None = None, task: str | None = None) -> int:
        """Queue every dead letter again, as `replay` does; how many there were."""
        letters = list(self.list(queue=queue, task=task))
        return sum(
            self._replay(letters[start : start + PAGE], NO_EDIT)
            for start in range(0, len(letters), PAGE)
        )

    def purge(self, *, queue: str | None = None, task: str | None = None) -> int:
        """Delete dead letters for good; how many there were."""
        return self._app.transport.bury([x.id for x in self.list(queue=queue, task=task)])

    def _replay(self, letters: Sequence[JobRecord], edit: _Edit) -> int:
        now = self._app.clock.now()
        edited = {
            letter.id: self._edited(letter, edit, now)
            for letter in letters
            if edit != NO_EDIT or _has_expired(letter, now)
        }
        return sum(self._app.transport.replay([letter.id for letter in letters], edited))

    def _edited(self, letter: JobRecord, edit: _Edit, now: float) -> Sealed:
        envelope = load(letter.envelope)
        changes: dict[str, Any] = {} if edit.queue is None else {"queue": edit.queue}
        if _has_expired(letter, now):
            changes["expires_at"] = None
        if edit.args is not None or edit.kwargs is not None:
            envelope, args, kwargs = _arguments(self._app, envelope, edit)
            codec, (a, k) = self._app.codecs.encode_many((args, kwargs), envelope.codec)
            is_json = self._app.codecs.is_json(codec)
            changes |= {
                "codec": codec,
                "args": embed(a, is_json=is_json),
                "kwargs": embed(k, is_json=is_json),
            }
        return self._app.seal_envelope(msgspec.structs.replace(envelope, **changes))


@dataclass(frozen=True)
class _Edit:
    """What a replay changes; ``None`` leaves it."""

    args: Sequence[Any] | None = None
    kwargs: Mapping[str, Any] | None = None
    queue: str | None = None


NO_EDIT = _Edit()


def _has_expired(letter: JobRecord, now: float) -> bool:
    return letter.expires_at is not None and letter.expires_at <= now


def _arguments(
    app: App, envelope: Envelope, edit: _Edit
) -> tuple[Envelope, list[Any], dict[str, Any]]:
    """Those that it will have, and the envelope with the codec that they are to be in. What both
    are given for need not be readable."""
    if edit.args is not None and edit.kwargs is not None:
        return envelope, list(edit.args), dict(edit.kwargs)
    envelope = app.fetch(envelope)
    args, kwargs = app.arguments_of(envelope)
    args = args if edit.args is None else list(edit.args)
    return envelope, args, kwargs if edit.kwargs is None else dict(edit.kwargs)
