"""Codecs: values survive the round trip, or are refused; they never change silently."""

import contextlib
import dataclasses
import datetime
import decimal
import enum
import math
import uuid
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmq.codec import CodecRegistry, Payload
from taskmq.errors import ConfigError, DecodeError, EncodeError

Serializer = Literal["msgspec", "json"]
SERIALIZERS: list[Serializer] = ["msgspec", "json"]
each_serializer = pytest.mark.parametrize("serializer", SERIALIZERS)

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@dataclasses.dataclass(frozen=True)
class Money:
    amount: int
    currency: str


class Point:
    """No type that a serializer knows by itself."""

    def __init__(self, x: int) -> None:
        self.x = x

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Point) and other.x == self.x

    __hash__ = None  # type: ignore[assignment]  # a mutable value


@dataclasses.dataclass
class Box:
    content: Any
    weight: float = 1.0


class Color(enum.Enum):
    RED = "red"


def registry(serializer: Serializer = "msgspec") -> CodecRegistry:
    made = CodecRegistry(serializer)
    made.register_type(
        Money, encode=lambda m: [m.amount, m.currency], decode=lambda v: Money(v[0], v[1])
    )
    made.register_type(Point, encode=lambda p: {"$type": p.x}, decode=lambda v: Point(v["$type"]))
    return made


@given(value=JSON_VALUES, writer=st.sampled_from(SERIALIZERS), reader=st.sampled_from(SERIALIZERS))
def test_json_values_survive_between_both_serializers(
    value: Any, writer: Serializer, reader: Serializer
) -> None:
    payload = CodecRegistry(writer).encode(value)
    assert payload.codec == "json"
    assert CodecRegistry(reader).decode(payload) == value


OWN_VALUES = st.recursive(
    st.builds(Money, st.integers(), st.text(st.characters(codec="utf-8")))
    | st.builds(Point, st.integers())
    | st.integers()
    | st.none(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.sampled_from(["a", "$type", "value", "$dict"]), inner)
    ),
    max_leaves=20,
)


@given(value=OWN_VALUES, serializer=st.sampled_from(SERIALIZERS))
def test_own_types_survive_anywhere_beside_dicts_that_look_like_tags(
    value: Any, serializer: Serializer
) -> None:
    codecs = registry(serializer)
    payload = codecs.encode(value)
    assert codecs.is_json(payload.codec)
    assert codecs.decode(payload) == value


@given(data=st.binary(), codec=st.sampled_from(["json", "json+types", "nobody"]))
def test_decoding_any_bytes_gives_a_value_or_a_decode_error(data: bytes, codec: str) -> None:
    for serializer in SERIALIZERS:
        with contextlib.suppress(DecodeError):
            registry(serializer).decode(Payload(codec, data))


@pytest.mark.parametrize(
    ("value", "wire"),
    [
        (datetime.datetime(2030, 1, 2, tzinfo=datetime.timezone.utc), b'"2030-01-02T00:00:00Z"'),
        (datetime.timedelta(minutes=1), b'"PT60S"'),
        (uuid.UUID(int=1), b'"00000000-0000-0000-0000-000000000001"'),
        (decimal.Decimal("1.50"), b'"1.50"'),
        (b"\x00", b'"AA=="'),
        ((1, 2), b"[1,2]"),
        (Color.RED, b'"red"'),
        (Box([1]), b'{"content":[1],"weight":1.0}'),
    ],
)
def test_msgspec_writes_common_types_as_json(value: Any, wire: bytes) -> None:
    assert CodecRegistry().encode(value) == Payload("json", wire)


@each_serializer
@pytest.mark.parametrize("value", [math.nan, math.inf, [1, {"a": -math.inf}], ({"b": math.nan},)])
def test_numbers_that_json_lacks_are_refused(serializer: Serializer, value: Any) -> None:
    with pytest.raises(EncodeError):
        CodecRegistry(serializer).encode(value)


class Reading(msgspec.Struct):
    value: float


@pytest.mark.parametrize(
    "value", [Box(1, weight=math.nan), Reading(math.inf), [Box(Reading(-math.inf))]]
)
def test_numbers_that_json_lacks_are_found_inside_of_objects(value: Any) -> None:
    with pytest.raises(EncodeError, match="JSON has no such number"):
        CodecRegistry().encode(value)
    assert CodecRegistry().encode(Box(None)).data == b'{"content":null,"weight":1.0}'


@each_serializer
@pytest.mark.parametrize("value", [object(), {"a": [Point(1)]}, len])
def test_a_type_that_nobody_registered_is_refused_by_its_name(
    serializer: Serializer, value: Any
) -> None:
    with pytest.raises(EncodeError, match=r"cannot encode a .*; register it with app\."):
        CodecRegistry(serializer).encode(value)


@each_serializer
def test_half_a_surrogate_pair_is_refused(serializer: Serializer) -> None:
    with pytest.raises(EncodeError, match="surrogates not allowed"):
        CodecRegistry(serializer).encode(["\ud800"])


@each_serializer
def test_what_nests_without_end_is_refused(serializer: Serializer) -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(EncodeError):
        CodecRegistry(serializer).encode(endless)


def test_an_own_type_inside_of_a_dataclass_is_tagged_as_well() -> None:
    codecs = registry()
    payload = codecs.encode(Box([Point(3)]))
    assert payload.codec == "json+types"
    assert codecs.decode(payload) == {"content": [Point(3)], "weight": 1.0}


def test_values_that_travel_together_share_one_wire_name() -> None:
    codecs = registry()
    assert codecs.encode_many(([1], {"a": 2})) == ("json", [b"[1]", b'{"a":2}'])
    name, (first, second) = codecs.encode_many(([Point(1)], {"$type": 2}))
    assert name == "json+types"
    assert codecs.decode(Payload(name, first)) == [Point(1)]
    assert codecs.decode(Payload(name, second)) == {"$type": 2}


def test_a_reader_without_the_type_says_which_one_it_lacks() -> None:
    payload = registry().encode(Money(1, "EUR"))
    with pytest.raises(DecodeError, match="type 'Money' is not registered in this app"):
        CodecRegistry().decode(payload)


@pytest.mark.parametrize("data", [b'{"$type":"Money"}', b'{"$type":"Money","value":[]}', b"{"])
def test_a_damaged_tag_is_a_decode_error(data: bytes) -> None:
    with pytest.raises(DecodeError, match="codec 'json\\+types' cannot read the payload"):
        registry().decode(Payload("json+types", data))


def test_two_types_cannot_share_a_tag() -> None:
    codecs = registry()
    other = type("Money", (), {})
    with pytest.raises(ConfigError, match="'Money' is registered already; pass another name="):
        codecs.register_type(other, encode=repr, decode=str)
    codecs.register_type(other, encode=repr, decode=str, name="shop.Money")
    with pytest.raises(ConfigError, match="registered already"):
        codecs.register_type(Color, encode=repr, decode=str, name="$dict")


class Hex:
    """A codec whose bytes are not JSON."""

    name = "jsonhex"  # begins like the built-in ones, and is none of them
    is_json = False

    def encode(self, value: Any) -> bytes:
        return str(value).encode().hex().encode()

    def decode(self, data: bytes) -> Any:
        return bytes.fromhex(data.decode()).decode()


class Broken(Hex):
    name = "broken"
    is_json = True


def test_a_codec_of_the_application_is_chosen_by_its_name() -> None:
    codecs = CodecRegistry()
    codecs.register(Hex())
    payload = codecs.encode("a", "jsonhex")
    assert payload == Payload("jsonhex", b"61")
    assert codecs.decode(payload) == "a"
    assert not codecs.is_json("jsonhex")
    with pytest.raises(ConfigError, match="codec 'jsonhex' is registered already"):
        codecs.register(Hex())


def test_a_codec_that_nobody_registered() -> None:
    codecs = CodecRegistry()
    with pytest.raises(EncodeError, match="codec 'yaml' is not registered in this app"):
        codecs.encode(1, "yaml")
    with pytest.raises(DecodeError, match="codec 'yaml' is not registered in this app"):
        codecs.decode(Payload("yaml", b"1"))
    with pytest.raises(DecodeError, match="codec 'yaml' is not registered"):
        codecs.is_json("yaml")


def test_a_codec_that_claims_json_must_write_json() -> None:
    codecs = CodecRegistry()
    codecs.register(Broken())
    with pytest.raises(EncodeError, match="cannot encode"):
        codecs.encode("{", "broken")


def test_a_codec_that_raises_is_translated_both_ways() -> None:
    codecs = CodecRegistry()
    codecs.register(Hex())
    with pytest.raises(EncodeError, match="cannot encode"):
        codecs.encode("\ud800", "jsonhex")
    with pytest.raises(DecodeError, match="codec 'jsonhex' cannot read the payload"):
        codecs.decode(Payload("jsonhex", b"zz"))
