"""From calls to envelopes, and from envelopes to arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Raw
from msgspec.structs import replace

from .call import NO_OPTIONS, Call, Pattern, instant
from .codec import BUILT_IN, JSON, NO_PAYLOAD_STORE, CodecRegistry
from .config import Config
from .dedup import dedup_of
from .envelope import DAY, VERSION, Envelope, Sealed, embed, extract, seal, seal_alike
from .errors import DecodeError, MalformedEnvelope
from .flow import flow_of, goes_by_arguments
from .ids import new_id, new_ids
from .references import OFFLOADED

if TYPE_CHECKING:
    from .payloads import Offload

__all__ = ["Sealer"]

T = TypeVar("T")
MOST_PATTERNS = 1000
"""So many tasks' are kept: a program may make up names of tasks without end."""


class Sealer:
    """Seals what an app submits, and opens what its workers get.

    ``offload`` puts large arguments into a payload store and gets them from there, if there is one.
    """

    def __init__(self, config: Config, codecs: CodecRegistry, offload: Offload | None) -> None:
        self._config = config
        self._codecs = codecs
        self._offload = offload
        self._patterns: dict[str, Pattern] = {}

    def seal(self, call: Call[Any], now: float) -> Sealed:
        """The envelope of a call, checked against the size limit. Large arguments are in the
        payload store then, if the app has one."""
        pattern = self._pattern(call, now)
        own = self._arguments(call, call.with_.codec or call.task.policy.codec)
        if call.after or call.feeds:
            own["after"], own["feeds"] = call.after, call.feeds
        job_id = call.id or call.with_.id or new_id(now)
        envelope = replace(pattern.envelope, id=job_id, enqueued_at=now, **own)
        if self._offload is not None:
            envelope = self._offload.send(envelope)
        return seal(envelope, self._config.max_message_bytes, pattern.capacity, pattern.envelope)

    def seal_many(self, calls: Sequence[Call[Any]], now: float) -> list[Sealed]:
        """The same for many. What does not depend on the single job is found once for those that
        follow each other and are of one task, with the same options."""
        if len(calls) == 1:
            return [self.seal(calls[0], now)]
        sealed: list[Sealed] = []
        start, count = 0, len(calls)
        while start < count:
            first, stop = calls[start], start + 1
            task, options, workflow = first.task, first.with_, first.workflow
            if not goes_by_arguments(task.policy):
                run_if, fail_fast = first.run_if, first.fail_fast
                while stop < count:
                    call = calls[stop]
                    if call.task is not task or call.with_ is not options:
                        break
                    if call.workflow != workflow or call.run_if != run_if:
                        break
                    if call.fail_fast != fail_fast:
                        break
                    stop += 1
            if stop == start + 1:
                sealed.append(self.seal(first, now))
            else:
                sealed += self._seal_alike(calls[start:stop], now)
            start = stop
        return sealed

    def _seal_alike(self, calls: Sequence[Call[Any]], now: float) -> list[Sealed]:
        """Of calls that a pattern serves: the first one's."""
        first = calls[0]
        _, _, pattern, capacity = self._pattern(first, now)
        own = first.with_.id
        ids = [call.id or own for call in calls]
        if None in ids:
            ids = [given or new for given, new in zip(ids, new_ids(now, len(ids)), strict=True)]
        envelopes = self._envelopes(calls, ids, pattern, now)
        if self._offload is not None:
            envelopes = [self._offload.send(envelope) for envelope in envelopes]
        return seal_alike(envelopes, self._config.max_message_bytes, pattern, capacity)

    def _envelopes(
        self, calls: Sequence[Call[Any]], ids: Sequence[Any], pattern: Envelope, now: float
    ) -> list[Envelope]:
        named = calls[0].with_.codec or calls[0].task.policy.codec
        plain: Sequence[bytes | None] | None = None
        if named is None or named in BUILT_IN:
            plain = self._codecs.encode_plain([call.args for call in calls])
        envelopes = []
        for call, job_id, args in zip(calls, ids, plain or [None] * len(calls), strict=True):
            if args is None or call.kwargs:
                own = self._arguments(call, named)
            elif call.after or call.feeds:
                own = {"args": Raw(args)}
            else:  # nearly always, and without a dict a third quicker
                envelopes.append(replace(pattern, id=job_id, enqueued_at=now, args=Raw(args)))
                continue
            if call.after or call.feeds:
                own["after"], own["feeds"] = call.after, call.feeds
            envelopes.append(replace(pattern, id=job_id, enqueued_at=now, **own))
        return envelopes

    def _arguments(self, call: Call[Any], codec: str | None) -> dict[str, Any]:
        """The fields of an envelope that hold arguments."""
        if not call.kwargs and (codec is None or codec in BUILT_IN):
            codec, (args,) = self._codecs.encode_many((call.args,), codec)
            return {"codec": codec, "args": Raw(args)}
        codec, (args, kwargs) = self._codecs.encode_many((call.args, call.kwargs), codec)
        if codec in BUILT_IN:
            return {"codec": codec, "args": Raw(args), "kwargs": Raw(kwargs)}
        is_json = self._codecs.is_json(codec)
        return {
            "codec": codec,
            "args": embed(args, is_json=is_json),
            "kwargs": embed(kwargs, is_json=is_json),
        }

    def prepared(self, call: Call[Any], now: float) -> Call[Any]:
        """See `taskmq.App.prepared`."""
        pattern = self._make_pattern(call, now)
        return replace(call, pattern=pattern) if _can_be_kept(pattern) else call

    def _pattern(self, call: Call[Any], now: float) -> Pattern:
        """What all jobs of such calls have in common. It is kept for calls without options, which
        are most; others may bring theirs."""
        task, options = call.task, call.with_
        if call.workflow is not None or call.fail_fast or call.run_if != "succeeded":
            return self._make_pattern(call, now)
        is_plain = options is NO_OPTIONS
        known = self._patterns.get(task.name) if is_plain else call.pattern
        if known is not None and known.policy is task.policy and known.options is options:
            return known
        pattern = self._make_pattern(call, now)
        if is_plain and _can_be_kept(pattern):
            if len(self._patterns) >= MOST_PATTERNS:
                self._patterns.clear()
            self._patterns[task.name] = pattern
        return pattern

    def _make_pattern(self, call: Call[Any], now: float) -> Pattern:
        task, options, config = call.task, call.with_, self._config
        policy = task.policy
        expires = policy.expires if options.expires is None else options.expires
        queue = options.queue or policy.queue or config.default_queue
        declared = config.queues.get(queue)
        limits, fair = flow_of(call, queue, declared)
        dedup = None
        if policy.dedup is not None or options.dedup is not None:
            dedup = dedup_of(call)
        pattern = Envelope(
            v=VERSION,
            id="",
            task=task.name,
            queue=queue,
            priority=_or(options.priority, policy.priority),
            eta=None if options.eta is None else instant("eta", options.eta, now),
            expires_at=None if expires is None else instant("expires", expires, now),
            timeout=_or(options.timeout, policy.timeout),
            hard_timeout=_or(options.hard_timeout, policy.hard_timeout),
            ack=options.ack or policy.ack,
            max_attempts=options.max_attempts,
            max_deliveries=options.max_deliveries or policy.max_deliveries,
            key=options.key,
            key_ttl=_or(options.key_ttl, config.key_ttl),
            store_result=_or(options.store_result, _or(policy.store_result, config.store_results)),
            result_ttl=_or(options.result_ttl, _or(policy.result_ttl, config.result_ttl)),
            run_if=call.run_if,
            workflow=call.workflow,
            fail_fast=call.fail_fast,
            limits=limits,
            fair=fair,
            dedup=dedup,
            dedup_ttl=DAY if dedup is None else self._dedup_ttl(call),
            trace=dict(options.trace) if options.trace else {},
            headers=dict(options.headers) if options.headers else {},
        )
        capacity = None if declared is None or declared.capacity is None else declared.room
        return Pattern(policy, options, pattern, capacity)

    def _dedup_ttl(self, call: Call[Any]) -> float:
        return _or(call.with_.dedup_ttl, _or(call.task.policy.dedup_ttl, self._config.dedup_ttl))

    def seal_envelope(self, envelope: Envelope) -> Sealed:
        """An envelope as it is stored: large arguments are put into the payload store, if the app
        has one. Raises as `taskmq.envelope.seal` does, and `PayloadUnavailable`."""
        if self._offload is not None:
            envelope = self._offload.send(envelope)
        return seal(envelope, self._config.max_message_bytes)

    def fetch(self, envelope: Envelope) -> Envelope:
        """An envelope with its arguments, wherever they are.

        Raises `DecodeError` (`PayloadLost` if they are missing or damaged), and
        `PayloadUnavailable`.
        """
        if envelope.codec != OFFLOADED:
            return envelope
        if self._offload is None:
            raise DecodeError(NO_PAYLOAD_STORE)
        return self._offload.fetch(envelope)

    def arguments_of(self, envelope: Envelope) -> tuple[list[Any], dict[str, Any]]:
        """The decoded arguments of an envelope. Raises as `fetch` does."""
        if envelope.codec == JSON:  # as below, with nothing in between: every job comes this way
            load_json = self._codecs.load_json
            args, kwargs = load_json(bytes(envelope.args)), load_json(bytes(envelope.kwargs))
            if type(args) is list and type(kwargs) is dict:
                return args, kwargs
        envelope = self.fetch(envelope)
        codec, decode = envelope.codec, self._codecs.decode
        is_json = self._codecs.is_json(codec)
        try:
            args = decode(extract(envelope.args, codec, is_json=is_json))
            kwargs = decode(extract(envelope.kwargs, codec, is_json=is_json))
        except MalformedEnvelope as error:
            raise DecodeError(str(error)) from None
        if not isinstance(args, (list, tuple)) or not isinstance(kwargs, dict):
            raise DecodeError("arguments are no list and dict")
        return list(args), kwargs


def _can_be_kept(pattern: Pattern) -> bool:
    """Whether it depends neither on the time nor on the arguments."""
    envelope = pattern.envelope
    return (
        envelope.eta is None
        and envelope.expires_at is None
        and not goes_by_arguments(pattern.policy)
    )


def _or(value: T | None, default: T) -> T:
    return default if value is None else value
