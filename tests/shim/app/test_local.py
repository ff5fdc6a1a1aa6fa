"""Stand-ins: `Proxy` and `PromiseProxy`."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, get_args, get_origin

import pytest

from celery import Celery, Task
from celery.local import PromiseProxy, Proxy, class_property, maybe_evaluate, try_import
from celery.result import AsyncResult
from celery.utils.objects import FallbackContext
from celery.utils.threads import LocalStack

pytestmark = pytest.mark.unit


class Thing:
    """A thing."""

    size = 1


def test_a_proxy_asks_anew_at_every_use() -> None:
    values = iter([[1], [1, 2], [1, 2, 3]])
    proxy: Any = Proxy(lambda: next(values))
    assert [len(proxy), proxy[1], proxy == [1, 2, 3]] == [1, 2, True]


def test_a_proxy_looks_like_its_object() -> None:
    thing = Thing()
    proxy: Any = Proxy(lambda: thing)
    assert isinstance(proxy, Thing)
    assert (proxy.size, proxy.__doc__, proxy.__module__) == (1, "A thing.", __name__)
    proxy.size = 5
    assert (thing.size, proxy.__dict__) == (5, {"size": 5})
    del proxy.size
    assert proxy.size == 1
    assert (repr(proxy), dir(proxy)) == (repr(thing), dir(thing))
    kind: type = type(proxy)
    assert kind is Proxy
    assert f"{kind.__module__}.{kind.__name__}" == "celery.local.Proxy"


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        (lambda n: n + 1, 8),
        (lambda n: 1 - n, -6),
        (lambda n: n // 2, 3),
        (lambda n: 2**n, 128),
        (lambda n: -n, -7),
        (lambda n: n < 8, True),
        (lambda n: int(n), 7),
        (lambda n: f"{n}", "7"),
        (lambda n: hash(n), 7),
        (lambda n: divmod(n, 2), (3, 1)),
        (lambda n: [0] * n, [0] * 7),
        (operator.index, 7),
        (bool, True),
    ],
)
def test_operators_reach_the_object(use: Callable[[Any], Any], expected: Any) -> None:
    assert use(Proxy(lambda: 7)) == expected


def test_containers_and_context_managers_reach_the_object() -> None:
    proxy: Any = Proxy(lambda values: values, ([1, 2],))
    proxy[0] = 5
    proxy += [9]
    assert list(proxy) == [5, 2, 9]
    assert 5 in proxy
    expected = pytest.raises(KeyError)
    proxy = Proxy(lambda: expected)
    with proxy as raised:
        raise KeyError("x")
    assert raised.type is KeyError


def test_a_proxy_without_object_is_false() -> None:
    def nothing() -> None:
        raise RuntimeError("nothing is bound")

    proxy = Proxy(nothing)
    assert not proxy
    assert (repr(proxy), dir(proxy)) == ("<Proxy unbound>", [])


def test_a_promise_is_kept_once_when_it_is_needed() -> None:
    made: list[int] = []

    def make() -> list[int]:
        made.append(1)
        return made

    promise: Any = PromiseProxy(make)
    told: list[str] = []
    promise.__then__(told.append, "first")
    assert (made, told, promise.__evaluated__()) == ([], [], False)
    assert len(promise) == 1
    assert (len(promise), told, promise.__evaluated__()) == (1, ["first"], True)
    promise.__then__(told.append, "second")
    assert told == ["first", "second"]
    assert maybe_evaluate(promise) is made
    assert maybe_evaluate(3) == 3


def test_a_class_property_is_one_of_the_class() -> None:
    class Counter:
        count = 1

        @class_property
        @classmethod
        def double(cls) -> int:
            return cls.count * 2

        @double.setter  # type: ignore[no-redef]  # how setters are written
        @classmethod
        def double(cls, value: int) -> None:
            cls.count = value // 2

    kind: Any = Counter
    assert (kind.double, kind().double) == (2, 2)
    counter = kind()
    counter.double = 10
    assert (kind.count, kind.double) == (5, 10)


def test_importing_what_may_not_be_there() -> None:
    assert try_import("no_such_module", default=3) == 3
    assert try_import("json").loads("1") == 1


@pytest.mark.parametrize("kind", [Celery, Task, AsyncResult, LocalStack, FallbackContext])
def test_classes_may_be_written_with_their_types(kind: Any) -> None:
    assert get_origin(kind[[int], str]) is kind
    assert get_args(kind[str]) == (str,)


def test_a_text_of_its_own() -> None:
    assert Proxy(lambda: int, __doc__="what it stands for").__doc__ == "what it stands for"
    assert Proxy(lambda: int).__doc__ == int.__doc__
