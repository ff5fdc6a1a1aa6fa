"""Results of canvases: parents, children, groups that are saved."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from celery import chain, chord, group, signature
from celery.result import AsyncResult, GroupResult, ResultSet, result_from_tuple

Value = Callable[[Any], Any]
Work = Callable[[], None]


def test_parents_lead_back_to_the_start(t: Any) -> None:
    result = chain(
        t.same.s(1), group(t.add.s(1), t.add.s(2)), t.total.s(), t.same.s()
    ).apply_async()
    assert isinstance(result, AsyncResult)
    assert isinstance(result.parent, AsyncResult)
    assert isinstance(result.parent.parent, GroupResult)
    assert isinstance(result.parent.parent.parent, AsyncResult)
    assert result.parent.parent.parent.parent is None


def test_the_parent_of_a_chord_is_its_header(t: Any) -> None:
    header = [t.same.s(1), t.same.s(2)]
    for body in (t.same.s(), t.same.s() | t.same.s(), chord(header, t.same.s())):
        result = chord(header, body).apply_async()
        assert isinstance(result.parent, GroupResult)
        assert result.parent.parent is None


def test_what_tasks_know_of_their_place(t: Any, value: Value) -> None:
    result = (
        t.ids.si() | t.ids.si() | group(t.ids.si() for _ in range(3)) | t.ids.si() | t.ids.si()
    ).apply_async()
    value(result)
    last, body = result.get(), result.parent.get()
    header, second = result.parent.parent, result.parent.parent.parent
    root = second.parent.id
    assert second.parent.get() == [root, None, None, None]
    assert second.get() == [root, root, None, None]
    assert header.get() == [[root, second.id, header.id, place] for place in range(3)]
    assert body[0] == root
    assert body[1] in {each.id for each in header}
    assert last[:2] == [root, result.parent.id]


def test_children_of_a_chain_and_its_graph(app: Any, t: Any, value: Value) -> None:
    result = (t.add.s(1, 1) | group(t.add.s(1), t.add.s(2)) | t.total.s()).apply_async()
    value(result)
    first = app.AsyncResult(result.parent.parent.id)  # asked from elsewhere
    (header,) = first.children
    assert isinstance(header, GroupResult)
    assert [each.id for each in header] == [each.id for each in result.parent]
    assert [found for _, found in first.collect()] == [2, [3, 4], 3, 4]


def test_children_of_a_body_that_calls_others(app: Any, t: Any, value: Value) -> None:
    @app.task(name="calls")  # type: ignore[untyped-decorator]
    def calls() -> None:
        t.add.delay(1, 1)
        group(t.same.s(1), t.same.s(2)).delay()

    result = calls.delay()
    value(result)
    one, several = result.children
    assert (one.get(), several.get()) == (2, [1, 2])
    assert isinstance(several, GroupResult)


def test_a_task_may_return_results(app: Any, t: Any, value: Value) -> None:
    @app.task(name="returns")  # type: ignore[untyped-decorator]
    def returns() -> Any:
        return (t.add.s(1, 1) | t.add.s(2)).delay()

    given = value(returns.delay())
    inner = result_from_tuple(given, app)
    assert (inner.get(timeout=1), inner.parent.get(timeout=1)) == (4, 2)


def test_groups_can_be_saved(app: Any, t: Any, value: Value) -> None:
    result = group(t.same.s(1), t.same.s(2)).apply_async()
    assert app.GroupResult.restore(result.id) is None
    result.save()
    again = app.GroupResult.restore(result.id)
    assert again == result
    assert value(again) == [1, 2]
    again.delete()
    assert app.GroupResult.restore(result.id) is None
    empty = group([], app=app).apply_async()
    empty.save()
    assert GroupResult.restore(empty.id, app=app).results == []


def test_results_as_values(app: Any, t: Any) -> None:
    result = chord([t.same.s(1), t.same.s(2)], t.total.s()).apply_async()
    again = result_from_tuple(json.loads(json.dumps(result.as_tuple())), app)
    assert (again, again.parent) == (result, result.parent)
    assert pickle.loads(pickle.dumps(result.parent)) == result.parent  # noqa: S301  # our own bytes
    assert copy.copy(result) == result
    assert result.as_list() == [result.id, result.parent.id]


def test_results_one_by_one(app: Any, t: Any, work: Work) -> None:
    results = ResultSet([t.same.delay(1), t.same.delay(2)], app=app)
    results.add(t.same.delay(3))
    results.add(results[0])
    assert (len(results), results.ready(), results.waiting()) == (3, False, True)
    work()
    found: dict[str, Any] = {}
    results.join(callback=found.__setitem__)
    assert list(found.values()) == [1, 2, 3]
    assert results.join_native(timeout=1) == [1, 2, 3]
    results.discard(results[1])
    assert results.get(timeout=1) == [1, 3]
    results.forget()
    assert not results.ready()


def test_results_that_are_there_are_joined_at_once(t: Any) -> None:
    done = group(t.same.s(1), chain(group(t.same.s(2), t.same.s(3)))).apply()
    done.on_ready()
    assert done.join_native(timeout=1) == [1, [2, 3]]


def test_waiting_for_results_within_a_task_is_refused(app: Any, t: Any, value: Value) -> None:
    @app.task(name="waits")  # type: ignore[untyped-decorator]
    def waits() -> None:
        group(t.same.s(1)).delay().get()

    result = waits.delay()
    with pytest.raises(RuntimeError, match="Never call result"):
        value(result)


def test_a_canvas_can_be_frozen_and_applied_later(t: Any, value: Value) -> None:
    canvas = chain(t.same.s(1), group(t.add.s(1), t.add.s(2)), t.total.s())
    frozen = canvas.freeze("mine")
    assert (frozen.id, canvas.id) == ("mine", "mine")
    result = canvas.apply_async()
    assert result.as_tuple() == frozen.as_tuple()
    assert value(frozen) == 5


def test_a_frozen_canvas_runs_again_when_it_is_applied_again(t: Any, value: Value) -> None:
    canvas = chord([t.note.s(1), t.note.s(2)], t.total.s())
    canvas.freeze()
    first, second = canvas.apply_async(), None
    assert value(first) == 3
    second = canvas.apply_async()
    assert second.id == first.id
    assert value(second) == 3
    assert sum(name == "note" for name, *_ in t.ran) == 4


def test_a_header_of_one_chain_that_ends_as_a_group_is_that_group(t: Any, value: Value) -> None:
    header = [chain(t.same.s(1), group(t.add.s(1), t.add.s(2)))]
    result = chord(header, t.total.s()).apply_async()
    assert value(result) == 5
    assert [each.get(timeout=1) for each in result.parent] == [2, 3]
    assert result.parent.parent.get(timeout=1) == 1


def test_a_chain_of_one_chord_has_the_header_as_its_parent(t: Any, value: Value) -> None:
    canvas = chain(chord([t.same.s(1)], chord([t.total.s(), t.total.s()], t.total.s())))
    result = canvas.apply_async()
    assert value(result) == 2
    assert result.parent.get(timeout=1) == [1]


def test_a_body_without_tasks_gives_nothing(t: Any, value: Value) -> None:
    result = chord([t.same.s(1)], group(iter([]))).apply_async()
    assert value(result) == []
    assert result.parent.get(timeout=1) == [1]


def test_a_header_with_a_group_without_tasks_in_it(t: Any, value: Value) -> None:
    nothing = chord([t.same.s(1)], group([]))
    result = chord([t.same.s(2), nothing, t.same.s(3)], t.same.s()).apply_async()
    assert value(result) == [2, [], 3]
    result = chord([t.same.s(2), chain(group([])), t.same.s(3)], t.same.s()).apply_async()
    assert value(result) == [2, [], 3]


def test_the_only_task_of_a_group_goes_on_with_the_body_of_a_chord(t: Any, value: Value) -> None:
    ends = {
        "several": group([group([t.same.s(), t.same.s()])]),
        "a chain": group([t.same.s() | t.same.s()]),
        "a generator": group(t.same.s() for _ in range(1)),
    }
    for name, end in ends.items():
        canvas = chord([t.same.s(1)], t.total.s()) | end
        assert isinstance(canvas, chord), name
        result = canvas.apply_async()
        assert value(result) == ([1, 1] if name == "several" else 1)
        assert result.parent.get(timeout=1) == [1]
        assert result.parent.parent is None


def test_links_of_a_chain_are_called_once_when_it_is_joined(t: Any, value: Value) -> None:
    first = chain(group(t.same.s(each) for each in [1]))
    first.link(t.note.si("linked"))
    result = (first | group([chain(chord([], t.total.s()))])).apply_async()
    assert value(result) == 0
    assert [name for name, *_ in t.ran].count("note") == 1


def test_links_of_a_chain_in_a_chain_survive_json(app: Any, t: Any, value: Value) -> None:
    inner = chain(t.same.s(1), group(t.same.s(), t.same.s()))
    inner.link(t.note.si("linked"))
    result = signature(json.loads(json.dumps(chain(inner))), app=app).apply_async()
    assert value(result) == [1, 1]
    assert [name for name, *_ in t.ran].count("note") == 1


def test_links_of_a_chain_that_ends_as_a_group_behind_a_task_are_of_every_task(
    t: Any, value: Value
) -> None:
    canvas = chain(t.same.s(1), group(t.add.s(1), t.add.s(2)))
    canvas.link(t.note.s())
    assert value(canvas.apply_async()) == [2, 3]
    assert sorted(each for each in t.ran if each[0] == "note") == [("note", 2), ("note", 3)]


def test_links_of_a_chain_that_ends_as_a_group_behind_a_group_are_called_once(
    t: Any, value: Value
) -> None:
    canvas = chain(t.same.s(1), group(t.add.s(1), t.add.s(2)), group(t.total.s(), t.total.s()))
    canvas.link(t.note.s("linked"))
    assert value(canvas.apply_async()) == [5, 5]
    assert [each for each in t.ran if each[0] == "note"] == [("note", "linked")]


@pytest.mark.parametrize("chords", [False, True])
def test_links_that_are_called_once_get_no_result_whatever_they_are(
    t: Any, value: Value, chords: bool
) -> None:
    notes = group(t.note.s(1), t.note.s(2))
    canvas = chain(t.same.s(1), group(t.same.s(), t.same.s()), group(t.total.s(), t.total.s()))
    link = chord(notes, t.same.s()) if chords else notes
    assert value(canvas.apply_async(link=link)) == [2, 2]
    assert sorted(each for each in t.ran if each[0] == "note") == [("note", 1), ("note", 2)]
    assert (("same", [1, 2]) in t.ran) == chords
