"""The parts of delivery by a broker that need none."""

from __future__ import annotations

import socket
import ssl
import threading

import pytest
from amqp import exceptions as said

from taskmq.errors import SchemaMismatch, TransportError, TransportUnavailable
from taskmq.transports.amqp.broker import Broker
from taskmq.transports.amqp.early import MOST, Early
from taskmq.transports.amqp.errors import translate
from taskmq.transports.amqp.notice import Notice, dump, load
from taskmq.transports.amqp.options import parse
from taskmq.transports.amqp.shelf import Arrival, Shelf
from taskmq.transports.amqp.tags import Tags
from taskmq.transports.amqp.topology import LONGEST_DELAY, delay_step


def broker(url: str) -> Broker:
    return Broker(parse(f"{url}&state=memory://" if "?" in url else f"{url}?state=memory://"))


# -- errors ------------------------------------------------------------------------------------


def _all(kind: type[BaseException]) -> list[type[BaseException]]:
    return [kind, *(each for below in kind.__subclasses__() for each in _all(below))]


@pytest.mark.parametrize("kind", _all(said.AMQPError), ids=lambda kind: kind.__name__)
def test_every_error_of_the_driver_is_one_of_ours(kind: type[said.AMQPError]) -> None:
    error = translate(kind("two\nlines"), "amqp://user:***@host/")
    assert isinstance(error, TransportError)
    assert "amqp://user:***@host/" in str(error)
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (said.PreconditionFailed("x"), SchemaMismatch, "other properties"),
        (said.AccessRefused("x"), TransportUnavailable, "refuses access"),
        (said.NotAllowed("no vhost"), TransportUnavailable, "no vhost"),
        (said.ConnectionForced("maintenance"), TransportUnavailable, "closed the connection"),
        (TimeoutError(), TransportUnavailable, "did not answer in time"),
        (socket.gaierror(-2, "Name unknown"), TransportUnavailable, "Name unknown"),
        (ConnectionRefusedError(), TransportUnavailable, "refuses connections"),
        (ConnectionResetError(104, "reset"), TransportUnavailable, "reset"),
        (ssl.SSLError("certificate"), TransportUnavailable, "TLS"),
        (AttributeError("drain_events"), TransportUnavailable, "drain_events"),
    ],
)
def test_errors_say_what_is_wrong(error: Exception, kind: type[TransportError], text: str) -> None:
    translated = translate(error, "there")
    assert type(translated) is kind
    assert text in str(translated)


def test_our_own_errors_stay_as_they_are() -> None:
    error = TransportUnavailable("ours")
    assert translate(error, "there") is error


# -- messages ----------------------------------------------------------------------------------


def test_a_notice_survives_the_wire() -> None:
    notice = Notice("01J", "mail", -3, 12.5)
    assert load(dump(notice)) == notice
    assert dump(Notice("01J", "mail")) == b'{"job":"01J","queue":"mail"}'


@pytest.mark.parametrize("body", [b"", b"\xff", b"[]", b'{"job": 1, "queue": "q"}', "text"])
def test_what_is_no_notice(body: bytes) -> None:
    assert load(body) is None


# -- delays ------------------------------------------------------------------------------------


def test_a_delay_is_cut_by_a_fifth_at_most() -> None:
    steps = set()
    for tenths in range(10, 36_000):
        seconds = tenths / 10
        step = delay_step(seconds)
        assert step is not None
        assert seconds * 0.8 <= step <= seconds
        steps.add(step)
    assert len(steps) <= 48  # queues at the broker, in all


def test_short_and_long_delays() -> None:
    assert delay_step(0.99) is None
    assert delay_step(1.0) == 1.0
    longest = delay_step(10 * LONGEST_DELAY)
    assert longest is not None
    assert longest <= LONGEST_DELAY


# -- priorities --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "lowest", "middle", "highest"),
    [
        ("amqp://host/", 0, 5, 10),
        ("amqp://host/?max_priority=18", 0, 9, 18),
        ("amqp://host/?queue_type=quorum", 0, 0, 0),
        ("kombu+redis://host/", 9, 5, 0),  # kombu's Redis counts downwards
        ("kombu+filesystem://host/", 0, 0, 0),
    ],
)
def test_priorities_keep_their_order(url: str, lowest: int, middle: int, highest: int) -> None:
    of = broker(url).priority_of
    assert (of(-9), of(9)) == (lowest, highest)
    assert abs(of(0) - middle) <= 1
    levels = [of(priority) for priority in range(-9, 10)]
    assert levels == sorted(levels, reverse=lowest > highest)


# -- acknowledging -----------------------------------------------------------------------------


def test_one_answer_for_all_that_are_over() -> None:
    tags = Tags()
    for tag in range(1, 6):
        tags.received(tag)
    assert tags.acknowledge([1, 2, 3]) == [(3, True)]
    assert tags.acknowledge([5]) == [(5, False)]
    assert tags.acknowledge([4]) == [(4, True)]


def test_answers_never_cover_an_open_message() -> None:
    tags = Tags()
    for tag in range(1, 6):
        tags.received(tag)
    assert tags.acknowledge([2, 4]) == [(2, False), (4, False)]
    tags.rejected(1)
    assert tags.acknowledge([3]) == [(3, True)]
    assert tags.acknowledge([5]) == [(5, True)]


# -- what has arrived --------------------------------------------------------------------------


def arrival(job: str, queue: str = "q", priority: int = 0) -> Arrival:
    return Arrival(Notice(job, queue, priority), job, 1)


def names(arrivals: list[Arrival]) -> list[str]:
    return [each.notice.job for each in arrivals]


def test_the_shelf_gives_the_most_urgent_first() -> None:
    shelf = Shelf()
    for each in (arrival("a"), arrival("b", priority=5), arrival("c", "other", 7), arrival("d")):
        shelf.put(each)
    assert names(shelf.take(["q"], 2)) == ["b", "a"]
    assert names(shelf.take(["q", "other"], 10)) == ["c", "d"]
    assert shelf.count(["q", "other"]) == 0


def test_what_is_put_back_comes_first() -> None:
    shelf = Shelf()
    for name in "abc":
        shelf.put(arrival(name))
    shelf.put_back(shelf.take(["q"], 2))
    assert names(shelf.take(["q"], 3)) == ["a", "b", "c"]


def wait(shelf: Shelf, count: int, *, first: float = 60.0, next_: float = 60.0) -> bool:
    return shelf.wait(["q"], count, first=first, next_=next_, longest=60.0)


def test_waiting_ends_with_enough_arrivals() -> None:
    shelf = Shelf()
    shelf.put(arrival("a"))
    assert wait(shelf, 1)
    more = [threading.Timer(0.01, shelf.put, [arrival(name)]) for name in "bc"]
    for timer in more:
        timer.start()
    assert wait(shelf, 3)
    for timer in more:
        timer.join()
    assert shelf.count(["q"]) == 3


def test_waiting_ends_with_silence() -> None:
    shelf = Shelf()
    assert not wait(shelf, 1, first=0.01)
    first = threading.Timer(0.01, lambda: shelf.put(arrival("a")))
    first.start()
    assert wait(shelf, 5, next_=0.01)
    first.join()
    assert wait(shelf, 5, next_=0.01)


def test_early_notices_come_when_they_are_due() -> None:
    early = Early()
    early.keep([Notice("b", "q", due=20.0), Notice("a", "q", due=10.0), Notice("c", "r", due=5.0)])
    assert early.take(["q"], 9.9, 5) == []
    assert early.take(["q", "r"], 20.0, 1) == ["a", "c"]
    assert early.take(["q"], 20.0, 5) == ["b"]


def test_early_notices_are_not_kept_without_end() -> None:
    early = Early()
    early.keep(Notice(str(number), "q", due=1.0) for number in range(MOST + 5))
    assert len(early.take(["q"], 1.0, 2 * MOST)) == MOST
