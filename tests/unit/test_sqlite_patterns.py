"""What envelopes have in common: found by their bytes, and nothing is taken for it that is not."""

from typing import Any

import msgspec
import pytest

from taskmq.envelope import Envelope, seal
from taskmq.ids import new_id
from taskmq.transports.sqlite.patterns import split


def envelopes(*fields: dict[str, Any]) -> tuple[Envelope, list[str], list[bytes]]:
    made = [Envelope(v=1, id=new_id(), task="t", queue="q", **each) for each in fields]
    return made[0], [each.id for each in made], [seal(each, 1 << 20).data for each in made]


def raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


ALIKE = {
    "arguments": [{"args": raw([number, '"args":[é']), "priority": 3} for number in range(100)],
    "keyword arguments": [{"args": raw([n]), "kwargs": raw({"n": [n]})} for n in range(20)],
    "now and then": [
        {"args": raw([n]), **({"kwargs": raw({"n": n})} if n % 2 else {})} for n in range(9)
    ],
    "nothing": [{}] * 5,
    "codec": [{"args": raw(f"{n}"), "codec": "pickle"} for n in range(5)],
    "headers": [{"args": raw([n]), "headers": {"args": [n > 9]}} for n in range(5)],
}


@pytest.mark.parametrize("fields", ALIKE.values(), ids=ALIKE)
def test_envelopes_are_what_they_were_when_they_are_put_together(
    fields: list[dict[str, Any]],
) -> None:
    first, ids, data = envelopes(*fields)
    found = split(first, ids, data)
    assert found is not None
    (head, middle, tail), own = found
    whole = [
        head + job_id.encode() + middle + each + tail for job_id, each in zip(ids, own, strict=True)
    ]
    assert whole == data
    assert sum(map(len, own)) < sum(map(len, data)) / 2


UNLIKE = {
    "priority": [{"args": raw([1]), "priority": 1}, {"args": raw([1])}],
    "headers": [
        {"args": raw([1]), "headers": {"a": "1"}},
        {"args": raw([1]), "headers": {"a": "2"}},
    ],
    "workflow": [{"args": raw([1]), "workflow": "w"}, {"args": raw([1])}],
    "shorter than the pattern": [{"args": raw([1]), "headers": {"a": "x" * 90}}, {}],
    "some without arguments": [{}, {"args": raw([1])}],
}


@pytest.mark.parametrize("fields", UNLIKE.values(), ids=UNLIKE)
def test_envelopes_that_differ_elsewhere_have_no_pattern(fields: list[dict[str, Any]]) -> None:
    assert split(*envelopes(*fields)) is None


def test_bytes_that_belong_to_no_envelope_have_no_pattern() -> None:
    first, ids, data = envelopes({"args": raw([1])}, {"args": raw([2])})
    assert split(first, ids, [b"garbage", data[1]]) is None
    assert split(first, ids, [data[0], b"garbage"]) is None
    assert split(first, ids, data[::-1]) is None
