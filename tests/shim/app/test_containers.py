"""`celery.utils.collections`: layered mappings, and containers that do not grow for ever."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from celery.utils.collections import (
    AttributeDict,
    BufferMap,
    ChainMap,
    ConfigurationView,
    DictAttribute,
    LimitedSet,
    Messagebuffer,
    force_mapping,
    lpmerge,
)
from celery.utils.objects import Bunch

pytestmark = pytest.mark.unit


def test_the_first_mapping_that_has_a_key_answers() -> None:
    view = ChainMap({"a": 1}, {"a": 2, "b": 2})
    assert (view["a"], view["b"], len(view), dict(view)) == (1, 2, 2, {"a": 1, "b": 2})
    view["b"] = 3
    assert view.maps == [{"a": 1, "b": 3}, {"a": 2, "b": 2}]
    assert view.pop("b") == 3
    with pytest.raises(KeyError, match="first mapping"):
        del view["b"]
    view.add_defaults({"b": 9})
    assert view["b"] == 9


def test_who_is_bound_hears_of_changes() -> None:
    told: list[dict[str, Any]] = []
    view = ChainMap()
    view.bind_to(lambda **changes: told.append(changes))
    view.update({"a": 1}, b=2)
    view.copy().update(c=3)
    assert told == [{"a": 1, "b": 2}]


def test_a_configuration_has_several_spellings() -> None:
    view = ConfigurationView(
        {"CELERY_QUEUE": "mail"},
        [{"queue": "celery", "size": 1}],
        keys=[{"OLD_QUEUE": "CELERY_QUEUE"}.get],
        prefix="CELERY",
    )
    assert view["queue"] == "mail"
    assert view.queue == "mail"
    assert view["OLD_QUEUE"] == "mail"
    assert view.first("none", "size") == 1
    with pytest.raises(AttributeError):
        view.nothing  # noqa: B018
    view.clear()
    assert view.queue == "celery"


def test_items_as_attributes_and_attributes_as_items() -> None:
    by_name = AttributeDict(a=1)
    by_name.b = 2
    assert (by_name["b"], by_name.a) == (2, 1)
    assert force_mapping(by_name) is by_name
    mapping = DictAttribute(Bunch(a=1))
    assert (mapping["a"], mapping.get("b", 0), "b" in mapping) == (1, 0, False)
    assert mapping.setdefault("b", 2) == mapping.obj.b == 2
    assert lpmerge({"a": 1, "b": 2}, {"a": None, "b": 3}) == {"a": 1, "b": 3}


def test_a_limited_set_forgets_the_oldest() -> None:
    kept = LimitedSet(maxlen=2)
    for moment, item in enumerate("abcb"):
        kept.add(item, now=moment)
    assert list(kept) == ["c", "b"]
    assert pickle.loads(pickle.dumps(kept)) == kept  # noqa: S301  # our own
    kept.expires = 10
    kept.purge(now=12.5)
    assert list(kept) == ["b"]
    kept.discard("b")
    assert not kept
    assert kept.pop("nothing") == "nothing"
    with pytest.raises(ValueError, match="minlen"):
        LimitedSet(maxlen=1, minlen=2)


def test_a_buffer_loses_the_oldest() -> None:
    buffer = Messagebuffer(2)
    buffer.extend("abc")
    assert (len(buffer), buffer.take(), list(buffer)) == (2, "b", ["c"])
    with pytest.raises(Messagebuffer.Empty):
        buffer.take()


def test_buffers_by_key_share_the_room() -> None:
    buffers = BufferMap(3, {"a": [1, 2], "b": [3, 4]})
    assert buffers.total == 3
    assert [buffers.take("a"), buffers.take("b"), buffers.take("b")] == [2, 3, 4]
    assert buffers.take("a", None) is None
    assert buffers.total == 0
