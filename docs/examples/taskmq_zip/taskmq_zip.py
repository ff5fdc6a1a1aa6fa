"""A plugin for taskmq: a store that keeps envelopes compressed, a codec that compresses values,
and a sink that counts events.

``zip+sqlite:///jobs.db`` is the SQLite store with smaller rows. It is made by composition: the
store within does everything, and this one looks at the few calls in which envelopes go in or out.
"""

import json
import zlib
from collections import Counter

import msgspec

from taskmq.plugins import open_transport
from taskmq.transport import Ack, Delegate, RetryLater

TASKMQ_PLUGIN_API = 1  # the version of the interface that this was written for


def register(plugins):
    """Offer everything at once: for `app.load_plugins("taskmq_zip")`, without an installation."""
    for scheme in ("zip+sqlite", "zip+memory"):
        plugins.transport(scheme, from_url)
    plugins.codec("zip", ZipCodec)
    plugins.sink("tally", TallySink)


# -- a transport -------------------------------------------------------------------------------


def from_url(url, *, clock):
    """``zip+X://…`` is a `ZipTransport` around ``X://…``."""
    return ZipTransport(open_transport(url.removeprefix("zip+"), clock=clock))


class ZipTransport:
    """A whole transport: what it does not do itself, it leaves to the store within."""

    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        return getattr(self._inner, name)

    @property
    def capabilities(self):
        """Those of the store within, and what this one adds to its limitations. Honest: nothing is
        claimed that the store within does not do."""
        inner = self._inner.capabilities
        note = "envelopes are compressed: other programs cannot read them in the store"
        return msgspec.structs.replace(inner, limitations=(*inner.limitations, note))

    # In: an envelope is compressed next to its fields, which the store within still sees.

    def enqueue(self, sealed):
        return self._inner.enqueue([_zipped(one) for one in sealed])

    def enqueue_within(self, sealed, connection):
        return self._inner.enqueue_within([_zipped(one) for one in sealed], connection)

    def replay(self, job_ids, envelopes):
        return self._inner.replay(job_ids, {id: _zipped(one) for id, one in envelopes.items()})

    def settle(self, settlements):
        return self._inner.settle([_with_zipped(each) for each in settlements])

    # Out: whatever reads it gets what the producer wrote.

    def exchange(self, settlements=(), reservation=None):
        answer = self._inner.exchange([_with_zipped(each) for each in settlements], reservation)
        return msgspec.structs.replace(answer, deliveries=_unzipped(answer.deliveries))

    def reserve(self, reservation):
        return _unzipped(self._inner.reserve(reservation))

    def get(self, job_ids):
        return _unzipped(self._inner.get(job_ids))

    def find(self, filter):
        return _unzipped(self._inner.find(filter))


def _zipped(sealed):
    return msgspec.structs.replace(sealed, data=zlib.compress(sealed.data))


def _with_zipped(settlement):
    """A settlement may bring envelopes along: another one for its job, or further jobs."""
    if isinstance(settlement, RetryLater) and settlement.envelope is not None:
        return msgspec.structs.replace(settlement, envelope=_zipped(settlement.envelope))
    if isinstance(settlement, Ack) and settlement.spawn:
        spawn = [_zipped(one) for one in settlement.spawn]
        return msgspec.structs.replace(settlement, spawn=spawn)
    if isinstance(settlement, Delegate):
        return msgspec.structs.replace(settlement, jobs=[_zipped(one) for one in settlement.jobs])
    return settlement


def _unzipped(items):
    """Deliveries or records, each with its envelope as it was; a success keeps none."""
    return [
        item
        if item is None or not item.envelope
        else msgspec.structs.replace(item, envelope=zlib.decompress(item.envelope))
        for item in items
    ]


# -- a codec -----------------------------------------------------------------------------------


class ZipCodec:
    """JSON, compressed. Its wire name must never change its meaning: jobs outlive releases."""

    name = "zip"
    is_json = False

    def encode(self, value):
        return zlib.compress(json.dumps(value, allow_nan=False).encode())

    def decode(self, data):
        return json.loads(zlib.decompress(data))


# -- a sink ------------------------------------------------------------------------------------


class TallySink:
    """Counts events by their kind. All sinks of a process are told in the worker's own thread: a
    sink that talks to a server hands over to a thread of its own."""

    def __init__(self):
        self.counts = Counter()

    def handle(self, events):
        self.counts.update(type(event).__name__ for event in events)
