"""Signatures as values. What is expected was recorded from Celery 5.7."""

# mypy: disable-error-code="untyped-decorator"
# Celery's decorators carry no types.

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from celery import Signature, chain, group, maybe_signature, signature
from celery.canvas import _chain
from celery.utils.abstract import CallableSignature

pytestmark = pytest.mark.unit


@pytest.fixture
def add(app: Any) -> Any:
    app.set_current()

    @app.task(name="a.add")
    def add(x: int, y: int) -> int:
        return x + y

    return add


def test_a_signature_is_a_dict() -> None:
    made = signature("a.b", args=(1,), kwargs={"x": 1}, options={"queue": "q"}, countdown=3)
    assert dict(made) == {
        "task": "a.b",
        "args": (1,),
        "kwargs": {"x": 1},
        "options": {"queue": "q", "countdown": 3},
        "subtask_type": None,
        "immutable": False,
    }
    assert (made.task, made.name, made.args, made.id) == ("a.b", "a.b", (1,), None)
    assert isinstance(made, CallableSignature)


def test_cloning_puts_new_arguments_first() -> None:
    made = signature("a.b", args=(1,), kwargs={"x": 1}, queue="q")
    other = made.clone((9,), {"y": 2}, queue="z")
    assert (other.args, other.kwargs, other.options) == ((9, 1), {"x": 1, "y": 2}, {"queue": "z"})
    assert (made.args, made.options) == ((1,), {"queue": "q"})
    assert made.clone() == made
    fixed = signature("a.b", (1,), immutable=True)
    assert fixed.clone((9,), {"y": 2}).args == (1,)


def test_options_links_and_ids(app: Any) -> None:
    app.set_current()
    made = signature("a.b")
    assert made.set(queue="q", immutable=True) is made
    assert made.immutable
    assert made.link(signature("cb")) == signature("cb")
    made.link(signature("cb"))
    assert made.on_error(signature("eb")) is made
    assert made.options == {
        "queue": "q",
        "link": [signature("cb")],
        "link_error": [signature("eb")],
    }
    assert made.flatten_links() == [made, signature("cb")]
    assert made.freeze("mine") == made.id == made.freeze("other") == "mine"


def test_a_task_makes_signatures_that_can_be_called(add: Any) -> None:
    assert add.s(2)(3) == 5
    assert add.s(2)(y=5) == 7
    assert add.s(2).apply((1,)).get() == 3
    assert add.si(1, 2).immutable
    assert add.signature((1,), {"y": 2}, countdown=3).options == {"countdown": 3}
    assert add.s(1) == add.subtask((1,))
    assert add.s(1).type == add


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda s: s(1), "a.add(1)"),
        (lambda s: s(1, y=2), "a.add(1, y=2)"),
        (lambda s: s(1) | s(2) | s(3), "a.add(1) | add(2) | add(3)"),
        (lambda s: s(1) | signature("n"), "a.add(1) | n()"),
        (lambda s: s(1) | chain(s(1, 1), s(2)), "a.add(1) | add(1, 1) | add(2)"),
        (lambda s: chain(s(1), s(2)) | chain(s(3), s(4)), "a.add(1) | add(2) | add(3) | add(4)"),
        (lambda s: chain(s(1)), "a.add(1)"),
        (lambda s: chain([s(1), s(2)]), "a.add(1) | add(2)"),
        (lambda s: chain(s(i) for i in range(3)), "a.add(0) | add(1) | add(2)"),
    ],
)
def test_how_signatures_look(add: Any, make: Any, text: str) -> None:
    assert repr(make(add.s)) == text


def test_a_copy_has_links_of_its_own_and_the_same_arguments(add: Any) -> None:
    numbers = (number for number in range(3))  # cannot be copied
    made = add.s(1, 2)
    made.link(add.s(numbers, y=numbers))
    for copied in (made.clone(), copy.deepcopy(made)):
        (link,) = copied.options["link"]
        assert link.args[0] is link.kwargs["y"] is numbers
        link.set(queue="q").kwargs["z"] = 1
    assert made.options["link"][0].options == {}
    assert made.options["link"][0].kwargs == {"y": numbers}


def test_a_signature_that_is_linked_to_itself_can_be_copied(add: Any) -> None:
    made = add.s(1)
    made.link(made)
    copied = copy.deepcopy(made)
    assert copied is not made
    assert copied.options["link"][0] is copied


def test_a_chain_is_a_signature_of_signatures(add: Any) -> None:
    made = chain(add.s(1, 1), add.s(2))
    assert dict(made) == {
        "task": "celery.chain",
        "args": (),
        "kwargs": {"tasks": [add.s(1, 1), add.s(2)]},
        "options": {},
        "subtask_type": "chain",
        "immutable": False,
    }
    assert (made.tasks, made.name) == ([add.s(1, 1), add.s(2)], "celery.chain")
    assert repr(chain()).startswith("<chain@0x")


def test_joining_leaves_the_parts_alone(add: Any) -> None:
    made = chain(add.s(1, 1), add.s(2))
    longer = made | add.s(9)
    assert (len(longer.tasks), len(made.tasks)) == (3, 2)
    made.link(add.s(5))
    assert (made | add.s(9)).tasks[1].options == {"link": [add.s(5)]}
    assert made.tasks[1].options == {}
    with pytest.raises(TypeError, match="unsupported operand"):
        _ = made | 5


@pytest.mark.parametrize("survive", [json.dumps, pickle.dumps, copy.deepcopy])
def test_signatures_survive_serialization(add: Any, survive: Any) -> None:
    made = chain(add.s(1, 1), add.s(2).set(queue="q"))
    made.link(add.s(3))
    sent = survive(made)
    back = {"dumps": lambda: json.loads(sent) if isinstance(sent, str) else pickle.loads(sent)}.get(  # noqa: S301  # our own bytes
        survive.__name__, lambda: sent
    )()
    again = signature(back)
    assert type(again) is _chain
    assert repr(again) == repr(made)
    assert again.tasks[1].options["queue"] == "q"
    assert again.options["link"][0]["args"] in ([3], (3,))


def test_maybe_signature(app: Any, add: Any) -> None:
    made = add.s(1)
    assert maybe_signature(None) is None
    assert maybe_signature(made) is made
    assert maybe_signature(made, clone=True) is not made
    from_dict = maybe_signature(dict(made), app=app)
    assert (type(from_dict), from_dict.app, from_dict) == (Signature, app, made)


def test_freezing_a_chain_gives_every_task_its_id(app: Any, add: Any) -> None:
    made = chain(add.s(1, 2), add.s(3))
    frozen = made.freeze("mine")
    assert (frozen.id, frozen.parent.id) == ("mine", made.tasks[0].id)
    assert made.apply_async().id == "mine"


def test_a_partial_call_of_a_signature(app: Any, add: Any, stored: Any) -> None:
    assert b'"args":[5,1]' in stored(app, add.s(1).delay(5)).envelope
    assert b'"args":[1,2]' in stored(app, add.si(1, 2).delay(5)).envelope
    assert b'"kwargs":{"y":1}' in stored(app, add.s(y=1).apply_async((2,))).envelope
    assert add.s(1, 2).set(task_id="set").delay().id == "set"


def test_stamps_that_nobody_names_are_all_stamps(add: Any) -> None:
    one = add.s(1, 1)
    one.stamp(tenant="a")
    one.stamp(colour="red")
    assert sorted(one.options["stamped_headers"]) == ["colour", "tenant"]
    one.stamp(colour="blue", append_stamps=True)
    assert one.options["colour"] == ["blue", "red"]
    two = add.s(1, 1)
    two.stamp(tenant="a", other="b", stamped_headers=["tenant"])
    assert two.options["stamped_headers"] == ["tenant"]


def test_stamping_a_group_from_a_generator_keeps_its_place_in_a_chain(add: Any) -> None:
    nothing = group(add.s(number) for number in range(0)).stamp(colour="red")
    made = group(add.s(1), add.s(2)) | nothing
    assert (made.subtask_type, made.body) == ("chord", nothing)


@pytest.mark.parametrize(("count", "shown"), [(0, "add(9)"), (1, "add(0) | add(9)")])
def test_a_group_from_a_generator_in_a_chain_counts_as_what_it_is(
    add: Any, count: int, shown: str
) -> None:
    made = chain(group(add.s(number) for number in range(count)), add.s(9))
    assert repr(made) == f"a.{shown}"


def test_of_a_group_from_a_generator_in_a_chain_two_tasks_are_taken(add: Any) -> None:
    taken: list[int] = []

    def tasks() -> Iterator[Any]:
        for number in range(9):
            taken.append(number)
            yield add.s(number)

    chain(group(tasks()), add.s(9))
    assert taken == [0, 1]


def test_nothing_in_chains_is_an_empty_group_or_none(add: Any) -> None:
    nothing = chain(_chain(group([])))
    assert nothing.apply_async().results == []
    assert chain(_chain([_chain([])])).apply_async() is None
