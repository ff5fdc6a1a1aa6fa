"""Envelope v1: what was sealed reads back; anything else is refused, never guessed at."""

import base64
import contextlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmq.envelope import (
    Dependency,
    Envelope,
    Sealed,
    embed,
    extract,
    fingerprint,
    load,
    seal,
)
from taskmq.errors import (
    EncodeError,
    MalformedEnvelope,
    MessageTooLarge,
    UnsupportedVersion,
)

LIMIT = 256 * 1024


def envelope(**fields: Any) -> Envelope:
    return Envelope(**{"v": 1, "id": "J1", "task": "shop.pay", "queue": "default", **fields})


def test_the_wire_form_leaves_defaults_out() -> None:
    data = seal(envelope(args=embed(b"[1]", is_json=True), priority=3), LIMIT).data
    assert msgspec.json.decode(data) == {
        "v": 1,
        "id": "J1",
        "task": "shop.pay",
        "queue": "default",
        "args": [1],
        "priority": 3,
    }


def test_every_field_reads_back() -> None:
    full = envelope(
        args=embed(b'["a"]', is_json=True),
        kwargs=embed(b'{"b":1}', is_json=True),
        codec="json+types",
        priority=-9,
        eta=1.5,
        expires_at=2.5,
        timeout=3.0,
        ack="on_receipt",
        max_deliveries=1,
        key="k",
        key_ttl=4.0,
        store_result=False,
        result_ttl=0.0,
        feeds=True,
        after=(Dependency("J0", 0), Dependency("J9", "names", True)),
        workflow="W1",
        trace={"traceparent": "00-1"},
        headers={"tenant": [1, None, {"x": "y"}]},
        enqueued_at=5.0,
    )
    assert load(seal(full, LIMIT).data) == full


def test_unknown_fields_are_ignored() -> None:
    data = b'{"v":1,"id":"J1","task":"t","queue":"q","of_version_1_point_1":[1]}'
    assert load(data).task == "t"


@given(st.binary() | st.text().map(str.encode))
def test_any_bytes_load_or_are_refused_with_a_message_error(data: bytes) -> None:
    with contextlib.suppress(MalformedEnvelope, UnsupportedVersion):
        load(data)


@given(st.data())
def test_a_damaged_envelope_never_raises_anything_else(data: st.DataObject) -> None:
    whole = seal(envelope(headers={"a": [1, 2]}, after=(Dependency("J0", 0),)), LIMIT).data
    at = data.draw(st.integers(0, len(whole) - 1))
    damaged = whole[:at] + data.draw(st.binary(max_size=3)) + whole[at + 1 :]
    with contextlib.suppress(MalformedEnvelope, UnsupportedVersion):
        load(damaged)


@pytest.mark.parametrize("data", [b'{"v":2}', b'{"v":2,"id":7}', b'{"v":0,"id":"a"}'])
def test_another_version_is_named_whatever_else_it_holds(data: bytes) -> None:
    with pytest.raises(UnsupportedVersion, match=r"envelope version [02]; this worker reads 1"):
        load(data)


def test_a_complete_envelope_of_another_version_is_refused() -> None:
    with pytest.raises(UnsupportedVersion, match="version 3"):
        load(msgspec.json.encode(envelope(v=3)))


@pytest.mark.parametrize(
    "data",
    [b"", b"null", b"[]", b'{"v":1}', b'{"v":"1"}', b"[" * 100_000, b'{"v":1,"ack":"x"}', b"\xff"],
)
def test_what_is_no_envelope_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedEnvelope, match="not a version 1 envelope"):
        load(data)


def test_the_limit_is_on_the_bytes_and_says_what_to_do() -> None:
    data = seal(envelope(), LIMIT).data
    assert seal(envelope(), len(data)) == Sealed(envelope(), data)
    with pytest.raises(MessageTooLarge, match=r"is 54 bytes, over the limit of 50 .*reference"):
        seal(envelope(id="J12"), 50)


@pytest.mark.parametrize(
    "fields", [{"headers": {"a": object()}}, {"headers": {"a": float("nan")}}, {"task": "\ud800"}]
)
def test_what_has_no_wire_form_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(EncodeError):
        seal(envelope(**fields), LIMIT)


@given(st.binary())
def test_bytes_that_are_no_json_travel_as_base64(data: bytes) -> None:
    field = embed(data, is_json=False)
    read = load(seal(envelope(args=field, codec="own"), LIMIT).data)
    assert extract(read.args, "own", is_json=False).data == data


@pytest.mark.parametrize("field", [b"[1]", b'"%%"', b'"YQ"'])
def test_a_field_that_should_be_base64_and_is_not(field: bytes) -> None:
    with pytest.raises(MalformedEnvelope, match="field is not base64"):
        extract(msgspec.Raw(field), "own", is_json=False)


def with_arguments(args: bytes, kwargs: bytes, **fields: Any) -> bytes:
    return fingerprint(envelope(args=msgspec.Raw(args), kwargs=msgspec.Raw(kwargs), **fields))


def test_a_fingerprint_tells_task_codec_and_arguments_apart() -> None:
    prints = {
        with_arguments(b"[1]", b"{}"),
        with_arguments(b"[1,1]", b"{}"),
        with_arguments(b"[[1]]", b"{}"),
        with_arguments(b"[]", b'{"a":1}'),
        with_arguments(b"[1]", b"{}", task="shop.refund"),
        with_arguments(b"[1]", b"{}", codec="json+types"),
        with_arguments(base64_of(b"[1]"), b"{}", codec="own"),
    }
    assert len(prints) == 7
    assert {len(each) for each in prints} == {16}


def test_a_fingerprint_ignores_the_order_of_keys_and_everything_else() -> None:
    first = with_arguments(
        b'[{"a":1,"b":2}]', b'{"c":3,"d":4}', id="J1", queue="a", headers={"h": 1}
    )
    second = with_arguments(b'[{"b":2,"a":1}]', b'{"d":4,"c":3}', id="J2", queue="b", priority=9)
    assert first == second


def base64_of(data: bytes) -> bytes:
    return b'"' + base64.b64encode(data) + b'"'
