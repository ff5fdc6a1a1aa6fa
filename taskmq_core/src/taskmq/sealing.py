"""From calls to envelopes, and from envelopes to arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from .call import Call, instant
from .codec import BUILT_IN, JSON, NO_PAYLOAD_STORE, CodecRegistry
from .config import Config
from .dedup import dedup_of
from .envelope import DAY, VERSION, Envelope, Sealed, embed, extract, seal
from .errors import DecodeError, MalformedEnvelope
from .flow import flow_of
from .ids import new_id
from .references import OFFLOADED

if TYPE_CHECKING:
    from .payloads import Offload

__all__ = ["Sealer"]

T = TypeVar("T")


class Sealer:
    """Seals what an app submits, and opens what its workers get.

    ``offload`` puts large arguments into a payload store and gets them from there, if there is one.
    """

    def __init__(self, config: Config, codecs: CodecRegistry, offload: Offload | None) -> None:
        self._config = config
        self._codecs = codecs
        self._offload = offload

    def seal(self, call: Call[Any], now: float) -> Sealed:
        """The envelope of a call, checked against the size limit. Large arguments are in the
        payload store then, if the app has one."""
        task, options, config = call.task, call.with_, self._config
        policy = task.policy
        codec, (args, kwargs) = self._codecs.encode_many(
            (call.args, call.kwargs), options.codec or policy.codec
        )
        is_json = codec in BUILT_IN or self._codecs.is_json(codec)
        expires = policy.expires if options.expires is None else options.expires
        queue = options.queue or policy.queue or config.default_queue
        declared = config.queues.get(queue)
        limits, fair = flow_of(call, queue, declared)
        dedup = None
        if policy.dedup is not None or options.dedup is not None:
            dedup = dedup_of(call)
        envelope = Envelope(
            v=VERSION,
            id=call.id or options.id or new_id(now),
            task=task.name,
            queue=queue,
            args=embed(args, is_json=is_json),
            kwargs=embed(kwargs, is_json=is_json),
            codec=codec,
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
            feeds=call.feeds,
            after=call.after,
            run_if=call.run_if,
            workflow=call.workflow,
            fail_fast=call.fail_fast,
            limits=limits,
            fair=fair,
            dedup=dedup,
            dedup_ttl=DAY if dedup is None else self._dedup_ttl(call),
            trace=dict(options.trace) if options.trace else {},
            headers=dict(options.headers) if options.headers else {},
            enqueued_at=now,
        )
        sealed = self.seal_envelope(envelope)
        if declared is None or declared.capacity is None:
            return sealed
        return Sealed(envelope, sealed.data, declared.room)

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


def _or(value: T | None, default: T) -> T:
    return default if value is None else value
