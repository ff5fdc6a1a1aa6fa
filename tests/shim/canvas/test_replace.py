"""Tasks that replace themselves, and that add to the group they are in."""

# mypy: disable-error-code="untyped-decorator"
# Celery's decorators carry no types.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from celery import chain, chord, group
from celery.canvas import _chain
from celery.exceptions import ChordError, ImproperlyConfigured

Value = Callable[[Any], Any]
Work = Callable[[], None]


def test_a_task_gives_what_its_replacement_gives(t: Any, value: Value) -> None:
    assert value(t.become.delay(t.add.s(1, 2))) == 3
    assert value(t.become.delay(t.add.s(1, 2) | t.add.s(10))) == 13
    assert value(t.become.delay(chord([t.same.s(1), t.same.s(2)], t.total.s()))) == 3


def test_a_group_gives_a_list(t: Any, value: Value) -> None:
    assert value(t.become.delay(group(t.same.s(1), t.same.s(2)))) == [1, 2]
    assert value(t.become.delay(t.same.s(1) | group(t.add.s(1), t.add.s(2)))) == [2, 3]
    ends_as_one = chord([t.same.si(1)], group(t.total.s(), t.same.s()))
    assert value(t.become.delay(ends_as_one)) == [1, [1]]
    assert value(t.become.delay(t.same.s(1) | ends_as_one)) == [1, [1]]


def test_replacements_of_replacements(t: Any, value: Value) -> None:
    sig = t.add.s(1, 1)
    for _ in range(4):
        sig = t.become.s(sig)
    assert value(sig.delay()) == 2


def test_within_canvases(t: Any, value: Value) -> None:
    own = t.become.si(t.add.s(1, 1) | t.add.s(1))
    assert value((t.same.s(0) | own | t.add.s(10)).delay()) == 13
    assert value(group(own, t.same.s(5)).delay()) == [3, 5]
    assert value(chord([own, t.become.s(group(t.same.s(1), t.same.s(2)))], t.same.s()).delay()) == [
        3,
        [1, 2],
    ]
    assert value(chord([t.same.s(1)], t.become.si(t.same.s(9)) | t.add.s(1)).delay()) == 10


def test_links_run_after_the_replacement(t: Any, value: Value) -> None:
    sig = t.become.s(t.add.s(1, 1))
    sig.link(t.note.s())
    assert value(sig.delay()) == 2
    assert ("note", 2) in t.ran


def test_the_replacement_has_the_id_of_the_task(app: Any, t: Any, value: Value) -> None:
    @app.task(name="who", bind=True)
    def who(self: Any) -> Any:
        request = self.request
        return [request.id, request.root_id, request.replaced_task_nesting]

    result = t.become.delay(who.s())
    assert value(result) == [result.id, result.id, 1]
    result = t.become.delay(t.become.s(who.s()))
    assert value(result) == [result.id, result.id, 2]


def test_error_callbacks_go_over_to_the_replacement(t: Any, work: Work) -> None:
    result = t.become.s(t.same.s(1) | t.fail.s()).on_error(t.note.s()).delay()
    work()
    assert result.state == "FAILURE"
    assert repr(result.result) == "ValueError('deliberate', 1)"
    assert ("note", result.id) in t.ran


def test_a_replacement_that_fails_in_a_header(t: Any, work: Work) -> None:
    result = chord([t.become.s(t.fail.s()), t.same.s(1)], t.total.s()).delay()
    work()
    assert isinstance(result.result, ChordError)
    assert str(result.result) == (
        f"Dependency {result.parent[0].id} raised ValueError('deliberate')"
    )


@pytest.mark.parametrize("nothing", [chain(), _chain(chain(), chain())])
def test_nothing_is_no_replacement(app: Any, t: Any, work: Work, nothing: Any) -> None:
    @app.task(name="vanish", bind=True)
    def vanish(self: Any) -> None:
        self.replace(nothing)

    result = vanish.delay()
    work()
    with pytest.raises(ImproperlyConfigured, match="Cannot replace with an empty chain"):
        result.get(timeout=1)


def test_eagerly(app: Any, t: Any) -> None:
    assert t.become.apply((t.add.s(1, 2),)).get() == 3
    assert t.become.apply((group(t.same.s(1), t.same.s(2)),)).get() == [1, 2]


def test_the_last_word_on_a_replacement(app: Any, t: Any, value: Value) -> None:
    class Careful(app.Task):  # type: ignore[misc]  # a class at run time
        def on_replace(self, sig: Any) -> Any:
            return super().on_replace(sig.set(priority=7))

    @app.task(name="careful", base=Careful, bind=True)
    def careful(self: Any) -> None:
        self.replace(priority.s())

    @app.task(name="priority", bind=True)
    def priority(self: Any) -> int:
        found: int = self.request.delivery_info["priority"]
        return found

    assert value(careful.delay()) == 7


def test_adding_to_a_chord(t: Any, value: Value) -> None:
    added = [t.add.s(1, 1), t.same.s(5), chord([t.same.s(1), t.same.s(2)], t.total.s())]
    result = chord([t.join.s(*added), t.same.s(7)], t.same.s()).delay()
    given = value(result)
    assert given[:2] == [0, 7]
    assert sorted(given[2:]) == [2, 3, 5]


def test_adding_to_a_group_that_nobody_waits_for(t: Any, work: Work) -> None:
    result = group(t.join.s(t.same.s(1))).delay()
    work()
    with pytest.raises(ValueError, match="not member of any chord"):
        result.get(timeout=1)


@pytest.mark.parametrize("behind", ["a task", "a chord"])
def test_a_task_joins_a_group_that_is_behind_a_chord(t: Any, value: Value, behind: str) -> None:
    before = chord([t.same.s(8)], t.same.si(1))
    last = t.total.s() if behind == "a task" else chord([t.same.s()], t.total.s())
    canvas = chain(before, group(t.join.si(t.same.s(2)), t.same.si(3)), last)
    assert value(canvas.delay()) == 5


def test_a_task_that_joins_late_fails_the_chord(t: Any, work: Work) -> None:
    result = chord([t.join.s(t.fail.s())], t.same.s()).delay()
    work()
    assert isinstance(result.result, ChordError)


def test_a_lazy_member_is_added_when_it_is_called(app: Any, t: Any, value: Value) -> None:
    late: list[Any] = []

    @app.task(name="lazily", bind=True)
    def lazily(self: Any) -> int:
        called, _not_called = (self.add_to_chord(t.add.s(n), lazy=True) for n in (10, 100))
        assert called.delay(5).id == called.id
        late.append(called)
        return 1

    assert value(chord([lazily.s(), t.same.s(2)], t.same.s()).delay()) == [1, 2, 15]
    with pytest.raises(RuntimeError, match="the task that was to add this to its chord has ended"):
        late[0].delay(1)


def test_a_replacement_has_no_stamps_of_the_task(app: Any, t: Any, value: Value) -> None:
    @app.task(name="stamps", bind=True)
    def stamps(self: Any) -> Any:
        return self.request.stamps

    replaced = t.become.s(stamps.s())
    replaced.stamp(mark="red")
    assert value(replaced.apply_async()) == {}


def test_a_task_may_become_a_chord_without_a_body(t: Any, value: Value) -> None:
    header = group(t.add.s(1, 1), t.add.s(1, 2))
    result = (t.become.si(chord(header, chain())) | t.total.s()).apply_async()
    assert value(result) == 5
    assert result.parent.get(timeout=1) == [2, 3]
