"""What canvases give. The values are those of Celery 5.7 with Redis."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from celery import chain, chord, group, signature
from celery.canvas import _chain
from taskmq_celery.engine import engine_for

Value = Callable[[Any], Any]

CANVASES: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "group": (lambda t: group(t.add.s(i, i) for i in range(4)), [0, 2, 4, 6]),
    "a group of groups": (
        lambda t: group(t.same.s(1), group(t.same.s(2), group(t.same.s(3), t.same.s(4)))),
        [1, 2, 3, 4],
    ),
    "a group of chains": (
        lambda t: group(t.add.s(1, 1) | t.add.s(10), t.same.s(3) | t.add.s(1) | t.add.s(2)),
        [12, 6],
    ),
    "a group behind a task": (
        lambda t: t.add.s(1, 1) | group(t.add.s(1), t.add.s(2)),
        [3, 4],
    ),
    "a group at the end of a chain in a group": (
        lambda t: group(t.same.s(1), chain(t.same.s(2), group(t.add.s(1), t.add.s(2)))),
        [1, [3, 4]],
    ),
    "chord": (lambda t: chord([t.add.s(1, 1), t.add.s(2, 2)], t.total.s()), 6),
    "a chord of one": (lambda t: chord([t.same.s(5)], t.same.s()), [5]),
    "a chord without a header": (lambda t: chord([], t.total.s()), 0),
    "a chord of empty chains": (
        lambda t: chord([chain(), t.same.s(1), chain(), t.same.s(2)], t.total.s()),
        3,
    ),
    "a group and a task": (lambda t: group(t.same.s(1), t.same.s(2)) | t.total.s(), 3),
    "a group and a group": (
        lambda t: group(t.same.s(1), t.same.s(2)) | group(t.total.s(), t.same.s()),
        [3, [1, 2]],
    ),
    "groups, and a task": (
        lambda t: chain(
            t.same.s(1),
            group(t.add.s(1), t.add.s(2)),
            group(t.total.s(), t.total.s()),
            t.total.s(),
            t.add.s(1),
        ),
        11,
    ),
    "a group of one in a chain is its task": (
        lambda t: chain(group(t.same.s(1)), t.add.s(1), group(t.add.s(1)), t.add.s(5)),
        8,
    ),
    "empty groups are nothing": (
        lambda t: _chain(t.same.s(1), group(), t.add.s(1), group(), chain()),
        2,
    ),
    "chords in a chain": (
        lambda t: chain(
            chord([t.add.si(1, 0), t.add.si(1, 0)], t.total.s()),
            chord([t.add.s(1), t.add.s(1)], t.total.s()),
            t.add.s(100),
        ),
        106,
    ),
    "chords in a chord": (
        lambda t: chord(
            [
                chord([t.same.s(1), t.same.s(2)], t.total.s()),
                chord([t.same.s(3)], t.total.s()),
            ],
            t.same.s(),
        ),
        [3, 3],
    ),
    "a group at the end of a chain in a chord": (
        lambda t: chord([chain(t.same.s(7), group(t.same.s(), t.add.s(1)))], t.same.s()),
        [[7, 8]],
    ),
    "groups in a chord are its own": (
        lambda t: chord([t.same.s(1), group(t.same.s(2), t.same.s(3))], t.same.s()),
        [1, 2, 3],
    ),
    "a body that is a chain of groups": (
        lambda t: chord(
            [t.same.s(1), t.same.s(2)],
            chain(t.total.s(), group(t.add.s(1), t.add.s(2)), t.total.s() | t.add.s(1)),
        ),
        10,
    ),
    "a body that is a chord": (
        lambda t: chord([t.same.s(1), t.same.s(2)], chord([t.total.s(), t.total.s()], t.same.s())),
        [3, 3],
    ),
    "immutable tasks get nothing": (
        lambda t: chain(group(t.same.si(1), t.same.si(2)), t.same.si(3), t.add.s(4)),
        7,
    ),
    "wide groups behind each other": (
        lambda t: chain(
            group(t.same.si(1) for _ in range(12)),
            group(t.total.s() for _ in range(12)),
            t.total.s(),
        ),
        144,
    ),
    "a chain as a header is its tasks": (
        lambda t: chord(chain(t.same.s(1), t.same.s(2)), t.same.s()),
        [1, 2],
    ),
    "map": (lambda t: t.same.map([1, 2, 3]), [1, 2, 3]),
    "starmap": (lambda t: t.add.starmap([(1, 1), (2, 2)]), [2, 4]),
    "chunks": (lambda t: t.add.chunks([(i, i) for i in range(5)], 2), [[0, 2], [4, 6], [8]]),
    "a group at the end of the only chain of a group": (
        lambda t: group(t.same.s(1) | group(t.add.s(1), t.add.s(2))),
        [2, 3],
    ),
    "chunks behind a task": (
        lambda t: t.same.si(1) | t.add.chunks([(1, 1), (2, 2), (3, 3)], 2).group(),
        [[2, 4], [6]],
    ),
    "accumulate": (lambda t: signature("celery.accumulate", args=(1, 2)), [1, 2]),
}


@pytest.mark.parametrize("name", CANVASES)
def test_what_canvases_give(t: Any, value: Value, name: str) -> None:
    make, expected = CANVASES[name]
    assert value(make(t).apply_async()) == expected


@pytest.mark.parametrize("url", ["memory"], indirect=True)
@pytest.mark.parametrize("name", [name for name in CANVASES if name != "chunks"])
def test_what_they_give_after_a_journey_as_json(t: Any, value: Value, name: str) -> None:
    make, expected = CANVASES[name]
    again = signature(json.loads(json.dumps(make(t))))
    assert value(again.apply_async()) == expected


@pytest.mark.parametrize("url", ["memory"], indirect=True)
@pytest.mark.parametrize("name", [name for name in CANVASES if "only chain" not in name])
def test_what_they_give_eagerly(app: Any, t: Any, name: str) -> None:
    make, expected = CANVASES[name]
    app.conf.task_always_eager = True
    given = make(t).apply_async().get()
    assert json.loads(json.dumps(given)) == expected


@pytest.mark.parametrize("url", ["memory"], indirect=True)
class TestOneStep:
    """A canvas is stored at once, with a size that is linear in its tasks."""

    def test_everything_is_one_batch(self, app: Any, t: Any, batches: list[Any]) -> None:
        chain(
            t.same.s(1), group(t.add.s(1), t.add.s(2) | t.add.s(3)), t.total.s(), t.note.s()
        ).apply_async()
        assert [len(batch) for batch in batches] == [6]

    def test_nothing_is_stored_if_a_part_cannot_be_sent(
        self, app: Any, t: Any, batches: list[Any]
    ) -> None:
        from kombu.exceptions import EncodeError

        with pytest.raises(EncodeError):
            group(t.same.s(1), t.same.s(object())).apply_async()
        assert batches == []

    def test_depth_costs_what_its_tasks_cost(self, app: Any, t: Any, batches: list[Any]) -> None:
        def nested(depth: int) -> Any:
            if depth == 0:
                return t.same.si(1)
            return chord([nested(depth - 1), nested(depth - 1)], t.total.s())

        sizes = []
        for depth in (3, 6):
            batches.clear()
            nested(depth).apply_async()
            (batch,) = batches
            sizes.append(sum(len(one.data) for one in batch) / len(batch))
        assert sizes[1] < 1.2 * sizes[0]

    def test_wide_groups_behind_each_other_have_no_edge_for_each_pair(
        self, app: Any, t: Any, batches: list[Any]
    ) -> None:
        chain(
            group(t.same.si(1) for _ in range(50)), group(t.total.s() for _ in range(50))
        ).apply_async()
        assert sum(len(one.envelope.after) for one in batches[0]) == 100

    def test_tasks_that_wait_for_nothing_go_through_their_own_apply_async(
        self, app: Any, batches: list[Any]
    ) -> None:
        called: list[Any] = []

        class Counted(app.Task):  # type: ignore[misc]  # a class at run time
            def apply_async(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
                called.append((tuple(args), options.get("priority")))
                return super().apply_async(args, kwargs, headers={"x": 1}, **options)

        task = app.task(lambda x: x, base=Counted, name="counted")
        chain(group(task.s(1), task.s(2)), task.s()).apply_async(priority=3)
        assert called == [((1,), 3), ((2,), 3)]
        (batch,) = batches
        assert [one.envelope.headers.get("x") for one in batch] == [1, 1, None]

    def test_a_task_may_choose_another_id_for_itself(self, app: Any, value: Value) -> None:
        class Renamed(app.Task):  # type: ignore[misc]  # a class at run time
            def apply_async(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
                return super().apply_async(args, kwargs, **{**options, "task_id": f"own-{args[0]}"})

        task = app.task(lambda x: x, base=Renamed, name="renamed")
        total = app.task(sum, name="sum", typing=False)
        result = chord([task.s(1), task.s(2)], total.s()).apply_async()
        assert [each.id for each in result.parent] == ["own-1", "own-2"]
        assert value(result) == 3


@pytest.fixture
def batches(app: Any) -> list[Any]:
    """What is stored, call by call."""
    from taskmq.testing import TransportWrapper

    found: list[Any] = []

    class Watching(TransportWrapper):
        def enqueue(self, sealed: Any) -> Any:
            found.append(list(sealed))
            return super().enqueue(sealed)

    engine = engine_for(app)
    engine._transport = Watching(engine.transport)
    return found


def test_a_header_may_be_of_tasks_themselves(t: Any, value: Value) -> None:
    nested = chord([t.total, t.total], t.total.s())
    assert value(chord([t.same.s(1), t.same.s(2)], nested).delay()) == 6


@pytest.mark.parametrize("count", [1, 2])
def test_tasks_of_a_slow_generator_run_once(
    t: Any, value: Value, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr("taskmq_celery.graph.growing.SLOW", -1.0)  # every generator takes longer
    result = group(t.note.s(number) for number in range(count)).apply_async()
    assert value(result) == list(range(count))
    assert len(t.ran) == count
