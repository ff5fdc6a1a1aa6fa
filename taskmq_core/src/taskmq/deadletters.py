"""The dead letters of an app: look, mend, replay, bury."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from .envelope import Sealed, embed, load, seal
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

        ``args``, ``kwargs`` and ``queue`` replace what the job had. Raises `UnknownJob`,
        `EncodeError`, `MessageTooLarge`; the dead letter is unchanged then.
        """
        edited: dict[str, Sealed] = {}
        if not (args is None and kwargs is None and queue is None):
            edited[job_id] = self._edited(self.get(job_id), args, kwargs, queue)
        if not self._app.transport.replay([job_id], edited)[0]:
            raise UnknownJob(f"no dead letter {job_id}")

    def replay_all(self, *, queue: str | None = None, task: str | None = None) -> int:
        """Queue every dead letter again; how many there were."""
        ids = [letter.id for letter in self.list(queue=queue, task=task)]
        return sum(
            sum(self._app.transport.replay(ids[start : start + PAGE], {}))
            for start in range(0, len(ids), PAGE)
        )

    def purge(self, *, queue: str | None = None, task: str | None = None) -> int:
        """Delete dead letters for good; how many there were."""
        return self._app.transport.bury([x.id for x in self.list(queue=queue, task=task)])

    def _edited(
        self,
        letter: JobRecord,
        args: Sequence[Any] | None,
        kwargs: Mapping[str, Any] | None,
        queue: str | None,
    ) -> Sealed:
        envelope, codecs = load(letter.envelope), self._app.codecs
        changes: dict[str, Any] = {} if queue is None else {"queue": queue}
        if args is not None or kwargs is not None:
            old_args, old_kwargs = self._app.arguments_of(envelope)
            custom = None if envelope.codec.startswith("json") else envelope.codec
            codec, (a, k) = codecs.encode_many(
                (
                    list(old_args if args is None else args),
                    dict(old_kwargs if kwargs is None else kwargs),
                ),
                custom,
            )
            is_json = codecs.is_json(codec)
            changes |= {
                "codec": codec,
                "args": embed(a, is_json=is_json),
                "kwargs": embed(k, is_json=is_json),
            }
        edited = msgspec.structs.replace(envelope, **changes)
        return seal(edited, self._app.config.max_message_bytes)
