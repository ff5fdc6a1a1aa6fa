"""Payload stores, references, and the sweep: one module, real files."""

import errno
import hashlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from taskmq import App, Config, ConfigError, Dependency, MessageTooLarge
from taskmq.codec import Payload
from taskmq.envelope import fingerprint, load
from taskmq.errors import DecodeError, EncodeError, PayloadLost, PayloadUnavailable
from taskmq.payloads import (
    FilePayloadStore,
    Offload,
    PayloadStore,
    StoredPayload,
    job_of,
    open_payload_store,
    sweep,
)
from taskmq.payloads.names import Kind, is_name, name_of
from taskmq.payloads.offload import reference_of
from taskmq.plugins import Plugins, open_transport
from taskmq.records import JobFilter, JobRecord
from taskmq.references import OFFLOADED, Reference, dump_reference
from taskmq.testing.wrapper import TransportWrapper
from taskmq.transport import Ack, Reservation

BIG = "x" * 5000
HOUR = 3600.0
DIGEST = hashlib.sha256(b"1").hexdigest()


def name(job: str = "job", kind: Kind = Kind.ARGUMENTS, digest: str = DIGEST) -> str:
    return name_of(job, kind, digest)


@pytest.fixture(params=["file", "fsspec memory", "fsspec local"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> PayloadStore:
    if request.param == "file":
        return open_payload_store(f"file://{tmp_path}/payloads")
    if request.param == "fsspec local":
        return open_payload_store(f"local://{tmp_path}/payloads")
    return open_payload_store(f"memory://{tmp_path.name}")


# -- stores --------------------------------------------------------------------------------------


def test_what_is_put_is_there(store: PayloadStore) -> None:
    before = time.time()
    assert list(store.stored()) == []
    assert store.get(name()) is None
    store.put(name(), b"abc")
    store.put(name(), b"abc")
    store.put(name("other"), b"")
    assert store.get(name()) == b"abc"
    stored = {each.name: each for each in store.stored()}
    assert {each.name: each.size for each in stored.values()} == {name(): 3, name("other"): 0}
    assert all(each.at is not None and each.at >= before - 5 for each in stored.values())
    store.delete([name(), name("never"), name("other")])
    assert list(store.stored()) == []
    assert store.get(name()) is None


@pytest.mark.parametrize(
    "bad", ["../../etc/passwd", "job.a." + "g" * 32, "", "a/b.a." + "0" * 32, "j.f." + "0" * 32]
)
def test_nothing_but_names_of_payloads_is_touched(store: PayloadStore, bad: str) -> None:
    calls: list[Callable[[], object]] = [
        lambda: store.get(bad),
        lambda: store.put(bad, b""),
        lambda: store.delete([bad]),
    ]
    for call in calls:
        with pytest.raises(PayloadUnavailable, match="is no name of a payload"):
            call()


@pytest.mark.parametrize("job", ["01HF7YAT00P1RHENHKJCXP1W2M", "../../x", ".", "a b/ü%.", "~"])
def test_any_job_id_makes_a_name_and_is_read_back(job: str) -> None:
    made = name(job)
    assert is_name(made)
    assert "/" not in made
    assert job_of(made) == job


def test_a_job_id_that_no_file_could_bear_is_refused() -> None:
    with pytest.raises(EncodeError, match="too long for a payload store"):
        name("x" * 101)


def test_files_are_whole_and_private(tmp_path: Path) -> None:
    store = FilePayloadStore(tmp_path / "payloads")
    store.put(name(), b"abc")
    (path,) = [path for path in (tmp_path / "payloads").rglob("*") if path.is_file()]
    assert path.name == name()
    assert path.stat().st_mode & 0o077 == 0
    assert path.parent.stat().st_mode & 0o077 == 0


def test_a_disk_that_is_full_is_told_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    store = FilePayloadStore(tmp_path)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(PayloadUnavailable, match=r"does not work: .*No space left"):
        store.put(name(), b"abc")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_folder_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = FilePayloadStore(tmp_path / "file")
    calls: list[Callable[[], object]] = [
        lambda: store.get(name()),
        lambda: store.put(name(), b""),
        lambda: store.delete([name()]),
        lambda: list(store.stored()),
    ]
    for call in calls:
        with pytest.raises(PayloadUnavailable, match=r"file:///.* does not work"):
            call()


def test_what_was_never_finished_is_taken_out_after_a_day(tmp_path: Path) -> None:
    store = FilePayloadStore(tmp_path)
    store.put(name(), b"abc")
    (shard,) = tmp_path.iterdir()
    old, new = shard / ".part-1", shard / ".part-2"
    for path in (old, new):
        path.write_bytes(b"half")
    long_ago = time.time() - 90_000
    os.utime(old, (long_ago, long_ago))
    assert [each.name for each in store.stored()] == [name()]
    assert (old.exists(), new.exists()) == (False, True)


def test_writers_of_the_same_name_do_not_disturb_readers(tmp_path: Path) -> None:
    store, data = FilePayloadStore(tmp_path), b"y" * 100_000
    store.put(name(), data)

    def write() -> None:
        for _ in range(20):
            store.put(name(), data)

    threads = [threading.Thread(target=write) for _ in range(3)]
    for thread in threads:
        thread.start()
    seen = {store.get(name()) for _ in range(200)}
    for thread in threads:
        thread.join()
    assert seen == {data}


def test_urls_of_payload_stores() -> None:
    with pytest.raises(ConfigError, match="is no URL of a payload store"):
        open_payload_store("file://")
    with pytest.raises(ConfigError, match=r"payload store nosuch://: .*nosuch"):
        open_payload_store("nosuch://bucket")
    plugins = Plugins()
    made = FilePayloadStore("x")
    plugins.payload_store("own", lambda url: made)
    assert open_payload_store("own://x", plugins) is made


def test_without_fsspec_it_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(ConfigError, match=r"pip install 'taskmq-py\[fsspec\]'"):
        open_payload_store("s3://bucket")


def test_errors_of_a_driver_are_ours(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = open_payload_store(f"local://{tmp_path}/file")
    with pytest.raises(PayloadUnavailable, match="payload store local:// does not work"):
        store.put(name(), b"")


# -- settings ------------------------------------------------------------------------------------


def test_settings_are_checked() -> None:
    with pytest.raises(ConfigError, match="offload_above needs a payload_store"):
        App(Config(offload_above=100))
    with pytest.raises(ConfigError, match="must not exceed max_message_bytes"):
        Config(offload_above=300_000, payload_store="file://x")
    with pytest.raises(ConfigError, match="payload_store must be a URL"):
        Config(payload_store="/var/payloads")
    with pytest.raises(ConfigError, match="offload_above must be a whole number"):
        Config(offload_above=0)


# -- envelopes -----------------------------------------------------------------------------------


def make_app(store: PayloadStore, above: int | None = 1000, **config: Any) -> App:
    app = App(Config(offload_above=above, **config), payloads=store)

    @app.task(name="echo")
    def echo(*args: Any, **kwargs: Any) -> Any:
        return [list(args), kwargs]

    return app


def test_an_envelope_with_large_arguments_refers_to_them(store: PayloadStore) -> None:
    app = make_app(store)
    small = app.seal(app.tasks["echo"].call("x"), 0.0).envelope
    assert small.codec == "json"
    sealed = app.seal(app.tasks["echo"].call(BIG, a=1), 0.0)
    assert sealed.envelope.codec == OFFLOADED
    assert len(sealed.data) < 500
    reference = reference_of(load(sealed.data))
    assert job_of(reference.name) == sealed.envelope.id
    assert reference.codec == "json"
    assert app.arguments_of(load(sealed.data)) == ([BIG], {"a": 1})
    fetched = app.fetch(sealed.envelope)
    assert (fetched.codec, bytes(fetched.kwargs)) == ("json", b'{"a":1}')


def test_an_argument_that_no_message_could_hold(store: PayloadStore) -> None:
    app = make_app(store, max_message_bytes=2000)
    huge = "y" * 3_000_000
    sealed = app.seal(app.tasks["echo"].call(huge), 0.0)
    assert app.arguments_of(sealed.envelope) == ([huge], {})
    with pytest.raises(MessageTooLarge):
        make_app(store, None, max_message_bytes=2000).seal(app.tasks["echo"].call(huge), 0.0)


def test_codecs_of_any_kind(store: PayloadStore) -> None:
    class Text:
        name = "text"
        is_json = False

        def encode(self, value: Any) -> bytes:
            return repr(value).encode()

        def decode(self, data: bytes) -> Any:
            return eval(data)  # noqa: S307  # a test's own bytes

    app = make_app(store)
    app.add_codec(Text())
    call = app.tasks["echo"].call(BIG).options(codec="text")
    sealed = app.seal(call, 0.0)
    assert reference_of(sealed.envelope).codec == "text"
    assert app.arguments_of(sealed.envelope) == ([BIG], {})


def test_the_same_arguments_have_the_same_fingerprint_wherever_they_are(
    store: PayloadStore,
) -> None:
    app, inline = make_app(store), make_app(store, None)
    call = app.tasks["echo"].call(BIG, a=1, b=2).options(key="k")
    twin = app.tasks["echo"].call(BIG, b=2, a=1).options(key="k")
    other = app.tasks["echo"].call(BIG, b=2, a=2).options(key="k")
    marks = [fingerprint(each.envelope) for each in (app.seal(call, 0.0), app.seal(twin, 0.0))]
    assert marks[0] == marks[1] == fingerprint(inline.seal(call, 0.0).envelope)
    assert marks[0] != fingerprint(app.seal(other, 0.0).envelope)


def test_an_app_without_a_payload_store_cannot_read_it(store: PayloadStore) -> None:
    app = make_app(store)
    sealed = app.seal(app.tasks["echo"].call(BIG), 0.0)
    with pytest.raises(DecodeError, match="this app has none: set payload_store") as caught:
        App(Config()).arguments_of(sealed.envelope)
    assert not isinstance(caught.value, PayloadLost)
    with pytest.raises(DecodeError, match="this app has none"):
        App(Config()).codecs.decode(Payload(OFFLOADED, b"{}"))
    reader = App(Config(), payloads=store)  # which writes none itself
    assert reader.arguments_of(sealed.envelope) == ([BIG], {})


def test_missing_and_damaged_payloads(store: PayloadStore) -> None:
    app = make_app(store)
    envelope = app.seal(app.tasks["echo"].call(BIG), 0.0).envelope
    stored = reference_of(envelope).name
    data = store.get(stored)
    assert data is not None
    for damage in (data[:-1], data[:-3] + b"zzz", b""):
        store.put(stored, damage)
        with pytest.raises(PayloadLost, match="is damaged") as damaged:
            app.arguments_of(envelope)
        assert damaged.value.reason == "payload_damaged"
    store.delete([stored])
    with pytest.raises(PayloadLost, match=r"\(5,\d+ bytes\) is not in the payload store") as lost:
        app.arguments_of(envelope)
    assert lost.value.reason == "payload_missing"


def test_what_is_no_reference(store: PayloadStore) -> None:
    app = make_app(store)
    envelope = app.seal(app.tasks["echo"].call(BIG), 0.0).envelope
    bad = {"name": "../../etc/passwd", "size": 1, "sha256": "0", "codec": "json"}
    for args in (b"[]", b"{}", b'["x"]', msgspec.json.encode([bad])):
        forged = msgspec.structs.replace(envelope, args=msgspec.Raw(args))
        with pytest.raises(DecodeError, match=r"no reference|no name of a payload"):
            app.arguments_of(forged)
    with pytest.raises(DecodeError, match="no reference"):
        app.codecs.decode(Payload(OFFLOADED, b"\xff"))


def test_nobody_can_register_the_name_of_references() -> None:
    class Offloaded:
        name = OFFLOADED
        is_json = True

        def encode(self, value: Any) -> bytes:
            return b""

        def decode(self, data: bytes) -> Any:
            return None

    with pytest.raises(ConfigError, match="registered already"):
        App(Config()).add_codec(Offloaded())


def test_a_key_that_stands_for_another_job_leaves_nothing(store: PayloadStore) -> None:
    app = make_app(store)
    first = app.tasks["echo"].submit(BIG, key="k")
    again = app.tasks["echo"].submit(BIG, key="k")
    assert again.id == first.id
    assert [job_of(each.name) for each in store.stored()] == [first.id]


def test_the_same_job_twice_keeps_its_payload(store: PayloadStore) -> None:
    app = make_app(store)
    call = app.tasks["echo"].call(BIG).options(id="mine")
    assert app.submit(call).created
    assert not app.submit(call).created
    assert [job_of(each.name) for each in store.stored()] == ["mine"]


# -- results -------------------------------------------------------------------------------------


class Down:
    """A payload store that does not answer."""

    def put(self, name: str, data: bytes) -> None:
        raise PayloadUnavailable("no answer")

    def get(self, name: str) -> bytes | None:
        raise PayloadUnavailable("no answer")

    def delete(self, names: Sequence[str]) -> None:
        raise PayloadUnavailable("no answer")

    def stored(self) -> Iterator[StoredPayload]:
        raise PayloadUnavailable("no answer")


def test_results_go_and_come_back(store: PayloadStore) -> None:
    offload = Offload(lambda: store, 10)
    small, large = Payload("json", b'"x"'), Payload("json", b'"%s"' % BIG.encode())
    assert offload.send_result("j", small) is small
    sent = offload.send_result("j", large)
    assert sent.codec == OFFLOADED
    assert offload.fetch_result(sent) == large


def test_a_result_stays_in_the_job_store_where_there_is_no_other_place() -> None:
    large = Payload("json", b'"%s"' % BIG.encode())
    offload = Offload(Down, 10)
    assert offload.send_result("j", large) is large


def test_a_payload_store_that_does_not_answer_stores_nothing() -> None:
    app = make_app(Down())
    with pytest.raises(PayloadUnavailable):
        app.tasks["echo"].delay(BIG)
    assert app.transport.stats() == []


# -- sweeping ------------------------------------------------------------------------------------


class Shelf:
    """A payload store whose files are as old as a test says."""

    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}
        self.at: dict[str, float | None] = {}

    def put(self, name: str, data: bytes) -> None:
        self.data[name], self.at[name] = data, 0.0

    def get(self, name: str) -> bytes | None:
        return self.data.get(name)

    def delete(self, names: Sequence[str]) -> None:
        for each in names:
            self.data.pop(each, None)

    def stored(self) -> Iterator[StoredPayload]:
        for each in list(self.data):
            yield StoredPayload(each, len(self.data[each]), self.at[each])


def test_a_sweep_keeps_what_a_job_refers_to() -> None:
    shelf = Shelf()
    app = make_app(shelf)
    kept = app.tasks["echo"].delay(BIG)
    gone = app.tasks["echo"].delay(BIG)
    app.transport.purge("default")
    kept = app.tasks["echo"].delay(BIG)
    report = sweep(app.transport, shelf, now=HOUR, dry_run=True)
    assert (report.looked_at, report.kept, report.deleted) == (3, 1, 2)
    assert len(shelf.data) == 3
    report = sweep(app.transport, shelf, now=HOUR)
    assert (report.deleted, report.complete, report.size > 10_000) == (2, True, True)
    assert [job_of(each) for each in shelf.data] == [kept.id]
    assert gone.id != kept.id


def test_a_sweep_leaves_what_is_young_or_of_no_known_age() -> None:
    shelf = Shelf()
    for job in ("young", "ageless", "old"):
        shelf.put(name(job), b"x")
    shelf.at[name("young")] = 1.0
    shelf.at[name("ageless")] = None
    report = sweep(open_transport("memory://"), shelf, now=HOUR)
    assert (report.young, report.deleted) == (2, 1)
    assert set(shelf.data) == {name("young"), name("ageless")}
    with pytest.raises(ConfigError, match="older_than must be at least 60"):
        sweep(open_transport("memory://"), shelf, now=HOUR, older_than=1)


def test_a_sweep_ends_at_its_limit() -> None:
    shelf = Shelf()
    for number in range(1200):
        shelf.put(name(f"job-{number}"), b"x")
    store = open_transport("memory://")
    report = sweep(store, shelf, now=HOUR, limit=499)
    assert (report.deleted, report.complete) == (499, False)
    report = sweep(store, shelf, now=HOUR, limit=5000)
    assert (report.deleted, report.complete) == (701, True)


def handed_over(app: App) -> tuple[str, str]:
    """A job whose large result was handed to another one, which waits; both ids. The first is
    forgotten."""
    first = app.submit(msgspec.structs.replace(app.tasks["echo"].call(BIG), feeds=True))
    second = app.submit(
        msgspec.structs.replace(app.tasks["echo"].call(), after=(Dependency(first.id, into=0),))
    )
    wanted = Reservation(queues={"default": 1}, worker="w", lease=60.0, limit=1)
    (delivery,) = app.transport.reserve(wanted)
    assert app.offload is not None
    result = app.codecs.encode([BIG])
    sent = app.offload.send_result(first.id, result)
    app.transport.settle([Ack(delivery, sent)])
    assert app.transport.forget([first.id]) == 1
    return first.id, second.id


def test_what_was_handed_over_stays_while_another_job_may_need_it() -> None:
    shelf = Shelf()
    app = make_app(shelf)
    first, second = handed_over(app)
    report = sweep(app.transport, shelf, now=HOUR)
    assert report.deleted == 1  # the arguments
    (left,) = shelf.data
    assert job_of(left) == first
    (delivery,) = app.transport.reserve(
        Reservation(queues={"default": 1}, worker="w", lease=60.0, limit=1)
    )
    assert delivery.job_id == second
    assert delivery.inputs is not None
    assert app.codecs.decode(delivery.inputs[first]) == [BIG]
    app.transport.settle([Ack(delivery, None)])
    assert sweep(app.transport, shelf, now=HOUR).deleted == 1
    assert shelf.data == {}


def test_a_result_in_a_workflow_stays_until_the_workflow_is_gone() -> None:
    """Spawned jobs are waited for by jobs whose envelopes do not name them."""
    shelf = Shelf()
    app = make_app(shelf)
    assert app.offload is not None
    other = app.submit(msgspec.structs.replace(app.tasks["echo"].call(), workflow="flow"))
    sent = app.offload.send_result("gone", app.codecs.encode(BIG), "flow")
    assert app.codecs.decode(sent) == BIG
    assert sweep(app.transport, shelf, now=HOUR).deleted == 0
    app.transport.revoke([other.id])
    assert sweep(app.transport, shelf, now=HOUR).deleted == 0
    app.transport.forget([other.id])
    assert sweep(app.transport, shelf, now=HOUR).deleted == 1


def test_a_result_that_another_job_has_as_its_own_stays() -> None:
    """As of a job that had delegated its work."""
    shelf = Shelf()
    app = make_app(shelf)
    assert app.offload is not None
    heir = app.tasks["echo"].delay()
    sent = app.offload.send_result("gone", app.codecs.encode(BIG))
    (delivery,) = app.transport.reserve(
        Reservation(queues={"default": 1}, worker="w", lease=60.0, limit=1)
    )
    app.transport.settle([Ack(delivery, sent)])
    assert sweep(app.transport, shelf, now=HOUR).deleted == 0
    assert heir.get(0) == BIG
    assert heir.forget()
    assert sweep(app.transport, shelf, now=HOUR).deleted == 1


def test_a_scan_that_lost_its_place_deletes_nothing_of_that_kind() -> None:
    class Forgetful(TransportWrapper):
        """Forgets the job after which a page is asked for, as a busy store may."""

        def find(self, filter: JobFilter) -> list[JobRecord]:
            return [] if filter.after else self.inner.find(filter)

        def get(self, job_ids: Sequence[str]) -> list[JobRecord | None]:
            return [None for _ in job_ids]

    shelf = Shelf()
    app = make_app(shelf)
    first, _ = handed_over(app)
    shelf.data = {key: value for key, value in shelf.data.items() if job_of(key) == first}
    report = sweep(Forgetful(app.transport), shelf, now=HOUR)
    assert [key.split(".")[1] for key in shelf.data] == ["r"]
    assert report.kept == 1


def test_references_are_small() -> None:
    offload = Offload(Shelf, 0)
    sent = offload.send_result("01HF7YAT00P1RHENHKJCXP1W2M", Payload("json", b"1"))
    assert len(sent.data) < 250
    assert sent.data == dump_reference(msgspec.json.decode(sent.data, type=Reference))
