"""Signals: who is called, and what may go wrong."""

from __future__ import annotations

import gc
import logging
from typing import Any

import pytest

from celery import signals
from celery.utils.dispatch import Signal

pytestmark = pytest.mark.unit


@pytest.fixture
def signal() -> Signal:
    return Signal(name="stock", providing_args=["item"])


def test_receivers_are_called_in_order_with_what_was_sent(signal: Signal) -> None:
    def first(sender: Any = None, item: Any = None, **kwargs: Any) -> Any:
        return "first", sender, item, kwargs["signal"]

    def second(**kwargs: Any) -> str:
        return "second"

    assert signal.connect(first) is first
    signal.connect(second)
    signal.connect(first)  # a second time changes nothing
    assert signal.send(sender="shop", item="tea") == [
        (first, ("first", "shop", "tea", signal)),
        (second, "second"),
    ]


@pytest.mark.parametrize("form", ["bare", "empty", "sender"])
def test_connect_is_a_decorator(signal: Signal, form: str) -> None:
    calls: list[Any] = []

    def receiver(sender: Any = None, **kwargs: Any) -> None:
        calls.append(sender)

    if form == "bare":
        signal.connect(receiver)
    elif form == "empty":
        signal.connect()(receiver)
    else:
        signal.connect(sender="shop")(receiver)
    signal.send("shop")
    signal.send("other")
    assert calls == (["shop"] if form == "sender" else ["shop", "other"])


def test_a_task_is_known_by_its_name(app: Any, signal: Signal) -> None:
    task = app.task(name="t")(lambda: None)
    calls: list[Any] = []

    def receiver(**kwargs: Any) -> None:
        calls.append(1)

    signal.connect(receiver, sender=task)
    signal.send(sender="t")
    signal.send(sender=task)
    signal.send(sender=app.tasks["t"])
    signal.send(sender="other")
    assert len(calls) == 3


def test_an_error_of_a_receiver_is_logged_and_given_back(
    signal: Signal, caplog: pytest.LogCaptureFixture
) -> None:
    def bad(**kwargs: Any) -> None:
        raise KeyError("x")

    def good(**kwargs: Any) -> int:
        return 1

    signal.connect(bad)
    signal.connect(good)
    with caplog.at_level(logging.ERROR, "celery.utils.dispatch.signal"):
        (_, error), (_, value) = signal.send(None)
    assert isinstance(error, KeyError)
    assert value == 1
    assert "Signal handler <function" in caplog.text


def test_receivers_do_not_live_longer_for_it_unless_asked(signal: Signal) -> None:
    class Shop:
        def sold(self, **kwargs: Any) -> str:
            return "sold"

    shop = Shop()
    signal.connect(shop.sold)
    assert [value for _, value in signal.send(None)] == ["sold"]
    del shop
    gc.collect()
    assert signal.send(None) == []
    signal.connect(Shop().sold, weak=False)
    gc.collect()
    assert [value for _, value in signal.send(None)] == ["sold"]


def test_disconnecting(signal: Signal) -> None:
    def receiver(**kwargs: Any) -> None: ...

    signal.connect(receiver, dispatch_uid="mine")
    assert signal.disconnect(receiver) is False
    assert signal.disconnect(dispatch_uid="mine") is True
    signal.connect(receiver, sender="shop")
    assert signal.has_listeners("shop")
    assert not signal.has_listeners("other")
    assert signal.disconnect(receiver, sender="shop") is True
    assert not signal.receivers


def test_a_receiver_can_be_called_until_it_succeeds(
    signal: Signal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("celery.utils.dispatch.signal.RETRY_SLEEP", 0.0)
    monkeypatch.setattr("celery.utils.dispatch.signal.MAX_RETRY_SLEEP", 0.0)
    calls: list[int] = []

    @signal.connect(retry=True)  # type: ignore[untyped-decorator]  # Celery's carry no types
    def flaky(**kwargs: Any) -> str:
        calls.append(1)
        if len(calls) < 3:
            raise OSError("busy")
        return "done"

    assert [value for _, value in signal.send(None)] == ["done"]
    assert len(calls) == 3


def test_a_receiver_must_take_keywords(signal: Signal) -> None:
    with pytest.raises(ValueError, match="Signal receiver must accept keyword arguments"):
        signal.connect(lambda sender: None)
    with pytest.raises(TypeError, match="must be callable"):
        signal.connect(receiver=None)


def test_every_signal_has_its_name() -> None:
    for name in signals.__all__:
        assert getattr(signals, name).name == name
    assert repr(signals.task_received) == "<Signal: task_received providing_args={'request'}>"
