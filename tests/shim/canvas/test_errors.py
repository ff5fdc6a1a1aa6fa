"""When a part of a canvas fails: what the other results are, and whose callbacks are called."""

# mypy: disable-error-code="untyped-decorator"
# Celery's decorators carry no types.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from celery import chain, chord, group
from celery.exceptions import ChordError, TaskRevokedError

Work = Callable[[], None]


LEGACY = "ignore:task_allow_error_cb_on_chord_header=False"


def told(t: Any) -> list[Any]:
    """Ids of tasks and errors, as the error callback got them."""
    return [tuple(each[1:]) for each in t.ran if each[0] == "tell"]


def test_a_chord_fails_with_its_header(t: Any, work: Work) -> None:
    failing = t.fail.s()
    failing.freeze()
    result = chord([t.same.s(1), failing], t.total.s()).apply_async()
    work()
    assert result.state == "FAILURE"
    assert isinstance(result.result, ChordError)
    assert str(result.result) == f"Dependency {failing.id} raised ValueError('deliberate')"
    with pytest.raises(ValueError, match="deliberate"):
        result.get(timeout=1)
    with pytest.raises(ChordError, match="deliberate"):
        result.get(timeout=1, follow_parents=False)
    assert not any(name == "total" for name, *_ in t.ran)


def test_the_error_callback_of_a_body_that_cannot_run(t: Any, work: Work) -> None:
    body = t.total.s().on_error(t.tell.s())
    result = chord([t.same.s(1), t.fail.s(), t.fail.s()], body).apply_async()
    work()
    ((task_id, error),) = told(t)
    assert task_id == result.id
    assert error.startswith('ChordError("Dependency ')


def test_old_style_error_callbacks_get_the_id_of_the_body(t: Any, work: Work) -> None:
    body = t.total.s().on_error(t.note.s())
    result = chord([t.fail.s()], body).apply_async()
    work()
    assert ("note", result.id) in t.ran


@pytest.mark.filterwarnings(LEGACY)
@pytest.mark.parametrize("body", ["a chain", "behind the group"])
def test_error_callbacks_of_a_chain_behind_a_group_get_the_id_of_its_end(
    t: Any, work: Work, body: str
) -> None:
    steps = [t.total.s(), t.same.s(), t.same.s()]
    header = group(t.fail.s(), t.same.s(1))
    canvas = chord(header, chain(*steps)) if body == "a chain" else chain(header, *steps)
    result = canvas.on_error(t.tell.s()).apply_async()
    work()
    ((task_id, error),) = told(t)
    assert task_id == result.id
    assert "deliberate" in error


def test_what_is_behind_a_header_without_tasks_fails_with_the_group_before(
    t: Any, work: Work
) -> None:
    body = chain(chord([], t.total.s().on_error(t.tell.s())), t.same.s())
    result = chord([t.fail.s(), t.same.s(1)], body).apply_async()
    work()
    assert isinstance(result.result, ChordError)
    assert len(told(t)) == 1


@pytest.mark.filterwarnings(LEGACY)
@pytest.mark.parametrize("replaced", [False, True])
def test_error_callbacks_of_a_chord_are_called_behind_one_whose_body_ran_and_failed(
    t: Any, work: Work, replaced: bool
) -> None:
    failing = t.become.si(t.fail.s()) if replaced else t.fail.si()
    inner = chord([t.same.s(1)], failing)
    result = chord([inner, t.same.s(2)], t.total.s()).on_error(t.tell.s()).apply_async()
    work()
    assert [task_id for task_id, _ in told(t)].count(result.id) == 1
    assert len(told(t)) == 2


def test_nothing_runs_behind_headers_without_tasks_if_the_group_before_has_failed(
    t: Any, work: Work
) -> None:
    body = chord([], chord([], t.total.s()))
    result = chord([t.fail.s(), t.same.s(1)], body).apply_async()
    work()
    assert isinstance(result.result, ChordError)
    assert not any(name == "total" for name, *_ in t.ran)


def test_a_chord_error_names_the_task_that_failed_before_the_header_could_start(
    t: Any, work: Work
) -> None:
    failing = t.fail.s()
    failing.freeze()
    inner = chord([chain(t.same.s(), t.same.s())], t.total.s())
    result = chord([failing, t.same.s(1)], chain(inner, t.same.s())).apply_async()
    work()
    assert str(result.result) == f"Dependency {failing.id} raised ValueError('deliberate')"


def test_the_error_behind_two_groups_that_never_started(t: Any, work: Work) -> None:
    failing = t.fail.s()
    failing.freeze()
    before = chord([failing, t.same.s(1)], t.same.s())
    group_of_two = group(t.same.s(), t.same.s())
    behind = chain(group_of_two, group(t.same.s()), chain(t.same.s()))
    result = (before | chord([t.same.s()], t.same.s()) | behind).apply_async()
    work()
    assert str(result.result) == f"Dependency {failing.id} raised ValueError('deliberate')"


def test_a_group_that_ends_a_body_and_never_started(t: Any, work: Work) -> None:
    before = chord([t.same.s(1)], t.fail.s())
    behind = chord([t.same.s(), t.same.s()], t.total.s())
    result = chain(before, group(t.same.s(), t.same.s()), behind).apply_async()
    work()
    assert isinstance(result.result, ValueError)


@pytest.mark.filterwarnings(LEGACY)
def test_every_task_of_a_body_that_is_a_group_has_its_callbacks_called(t: Any, work: Work) -> None:
    canvas = chord([t.fail.s()], group(t.total.s(), t.same.s()))
    canvas.link_error(t.tell.s())
    result = canvas.apply_async()
    work()
    assert {task_id for task_id, _ in told(t)} == {each.id for each in result}


@pytest.mark.filterwarnings(LEGACY)
@pytest.mark.parametrize("on_header", [False, True])
def test_callbacks_of_a_chord_on_its_header(app: Any, t: Any, work: Work, on_header: bool) -> None:
    app.conf.task_allow_error_cb_on_chord_header = on_header
    canvas = chord([t.fail.s(), t.same.s(1), t.fail.s()], t.total.s())
    canvas.link_error(t.tell.s())
    result = canvas.apply_async()
    work()
    failed = [each.id for each in result.parent if each.failed()]
    expected = [*failed, result.id] if on_header else [result.id]
    assert sorted(task_id for task_id, _ in told(t)) == sorted(expected)


@pytest.mark.filterwarnings(LEGACY)
@pytest.mark.parametrize("shape", ["chord", "upgraded", "chain"])
def test_callbacks_of_a_chord_are_for_chords_in_its_header(t: Any, work: Work, shape: str) -> None:
    made: dict[str, Callable[[], Any]] = {
        "chord": lambda: chord([t.same.s(1)], t.fail.s()),
        "upgraded": lambda: group(t.same.s(1), t.same.s(2)) | t.fail.s(),
        "chain": lambda: chain(t.same.s(0), chord([t.same.si(1)], t.fail.s())),
    }
    inner = made[shape]()
    canvas = chord([inner, t.fail.s()], t.total.s())
    canvas.on_error(t.tell.s())
    result = canvas.apply_async()
    work()
    called = [task_id for task_id, _ in told(t)]
    of_the_chord = [] if shape == "chain" else [result.parent.results[0].id]
    assert sorted(called) == sorted([*of_the_chord, result.id])


@pytest.mark.filterwarnings(LEGACY)
def test_what_a_chord_in_a_header_has_called_is_not_called_again(t: Any, work: Work) -> None:
    inner = chord([t.same.s(1), t.fail.s()], t.total.s())
    body = t.total.s().on_error(t.note.si("body"))
    canvas = chord(group(t.same.s(2), inner), body)
    canvas.on_error(t.tell.s())
    result = canvas.apply_async()
    work()
    ((task_id, error),) = told(t)
    assert task_id == result.parent.results[1].id
    assert error.startswith('ChordError("Dependency ')
    assert ("note", "body") in t.ran
    assert result.state == "FAILURE"


@pytest.mark.filterwarnings(LEGACY)
def test_a_chord_with_several_losses_calls_back_for_itself(t: Any, work: Work) -> None:
    inner = chord([t.fail.s()], t.total.s())
    canvas = chord([inner, t.fail.s()], t.total.s())
    canvas.on_error(t.tell.s())
    result = canvas.apply_async()
    work()
    called = sorted(task_id for task_id, _ in told(t))
    assert called == sorted([result.parent.results[0].id, result.id])


def test_a_failure_before_a_chord_calls_back_once(t: Any, work: Work) -> None:
    canvas = chain(t.fail.s(), group(t.same.s(), t.same.s()), t.total.s(), t.same.s())
    result = canvas.on_error(t.tell.s()).apply_async()
    work()
    ((task_id, error),) = told(t)
    assert error == "ValueError('deliberate')"
    assert task_id == result.parent.parent.parent.id
    assert result.state == "FAILURE"
    with pytest.raises(ValueError, match="deliberate"):
        result.get(timeout=1)


@pytest.mark.filterwarnings(LEGACY)
def test_a_callback_that_is_said_twice_is_called_once(t: Any, work: Work) -> None:
    behind = chord([t.same.s(), t.same.s()], t.total.s())
    canvas = chain(group(t.same.s(1), t.same.s(2)), t.fail.s(), behind)
    canvas.on_error(t.tell.s()).apply_async(link_error=t.tell.s())
    work()
    assert len(told(t)) == 1


def test_a_failure_reaches_chords_around_and_behind(t: Any, work: Work) -> None:
    inner = chord([t.same.s(1), t.fail.s()], t.total.s())
    canvas = chord([inner, t.same.s(2)], t.total.s())
    body = canvas.body.freeze()
    result = (canvas | t.same.s()).apply_async()
    work()
    for each in (result, body):
        assert each.state == "FAILURE"
        assert isinstance(each.result, ChordError)
    assert str(result.result).count("Dependency") == 2
    assert "deliberate" in str(result.result)


def test_a_chain_that_breaks_in_a_header(t: Any, work: Work) -> None:
    body = t.total.s().on_error(t.tell.s())
    result = chord([chain(t.same.s(1), t.fail.s(), t.same.s()), t.same.s(2)], body).apply_async()
    work()
    ((task_id, error),) = told(t)
    assert task_id == result.id
    assert "deliberate" in error


def test_a_task_of_a_group_that_fails_keeps_no_other_from_running(t: Any, work: Work) -> None:
    result = group(t.same.s(1), t.fail.s(), t.same.s(3)).apply_async()
    work()
    assert [each.state for each in result] == ["SUCCESS", "FAILURE", "SUCCESS"]
    assert (result.ready(), result.failed(), result.successful()) == (True, True, False)
    assert (result.completed_count(), result.waiting()) == (2, False)
    with pytest.raises(ValueError, match="deliberate"):
        result.get(timeout=1)
    one, error, three = result.get(timeout=1, propagate=False)
    assert (one, repr(error), three) == (1, "ValueError('deliberate')", 3)


def test_a_member_that_is_revoked_fails_the_chord(t: Any, work: Work) -> None:
    result = chord([t.same.s(1), t.same.s(2)], t.total.s()).apply_async()
    result.parent[1].revoke()
    work()
    assert isinstance(result.result, ChordError)
    assert "TaskRevokedError" in str(result.result)
    with pytest.raises(TaskRevokedError):
        result.get(timeout=1)


def test_a_retry_in_a_header(app: Any, t: Any, work: Work) -> None:
    @app.task(name="flaky", bind=True, default_retry_delay=0)
    def flaky(self: Any) -> int:
        if self.request.retries < 2:
            raise self.retry(countdown=0)
        return 5

    result = chord([flaky.s(), t.same.s(1)], t.total.s()).apply_async()
    work()
    assert result.get(timeout=1) == 6


def test_groups_have_no_links(t: Any) -> None:
    for option in ("link", "link_error"):
        with pytest.raises(TypeError, match="Cannot add link to group"):
            group(t.same.s(1)).apply_async(**{option: t.note.s()})


def test_the_link_of_a_group_is_that_of_its_first_task(t: Any, work: Work) -> None:
    canvas = group(t.same.s(1), t.same.s(2))
    canvas.link(t.note.s("linked"))
    canvas.apply_async()
    work()
    assert t.ran.count(("note", "linked")) == 1


def test_links_that_are_canvases(t: Any, work: Work) -> None:
    first = t.same.s(1)
    first.link(chord([t.add.s(1), t.add.s(2)], t.note.s()))
    first.link(group(t.add.s(10), t.add.s(20)) | t.note.s())
    first.apply_async()
    work()
    assert sorted(what for name, what, *_ in t.ran if name == "note") == [[2, 3], [11, 21]]


def test_tasks_of_a_body_that_is_a_group_have_the_error_itself(t: Any, work: Work) -> None:
    result = chord([t.same.s(1), t.fail.s()], group(t.total.s(), t.same.s())).apply_async()
    wide = chain(
        group(*(t.same.si(1) for _ in range(11)), t.fail.s()),
        group(t.same.s() for _ in range(12)),
    ).apply_async()
    work()
    for each in (*result, *wide):
        assert repr(each.result) == "ValueError('deliberate')"
    with pytest.raises(ValueError, match="deliberate"):
        result.get(timeout=1)


@pytest.mark.parametrize("shape", ["chord", "group"])
def test_callbacks_of_a_chord_in_the_body(t: Any, work: Work, shape: str) -> None:
    inner = chord([t.total.s(), t.total.s()], t.total.s())
    body = inner if shape == "chord" else group(inner, t.total.s())
    chord([t.same.s(1), t.fail.s()], body).apply_async(link_error=t.note.si("failed"))
    work()
    assert t.ran.count(("note", "failed")) == (1 if shape == "chord" else 2)


def test_a_link_given_to_a_chord_with_a_group_behind_runs_once(t: Any, work: Work) -> None:
    body = group(t.total.s(), t.total.s())
    chord([t.same.s(1), t.same.s(2)], body).apply_async(link=t.note.s("linked"))
    work()
    assert t.ran.count(("note", "linked")) == 1


def test_behind_a_group_that_never_started_is_the_error_of_what_was_before(
    t: Any, work: Work
) -> None:
    result = chain(t.fail.s(), group(t.same.s(), t.same.s()), t.total.s(), t.same.s()).apply_async()
    work()
    assert repr(result.result) == repr(result.parent.result) == "ValueError('deliberate')"


def test_an_error_callback_that_is_a_method_gets_the_id(app: Any, t: Any, work: Work) -> None:
    @app.task(name="bound", bind=True)
    def bound(self: Any, *args: Any) -> None:
        t.ran.append(("bound", *args))

    result = t.fail.s().on_error(bound.s("mine")).apply_async()
    work()
    assert ("bound", result.id, "mine") in t.ran


@pytest.mark.parametrize("before", ["chord", "task"])
def test_behind_an_empty_header_nothing_runs_if_what_is_before_failed(
    t: Any, work: Work, before: str
) -> None:
    behind = chord([], t.note.s())
    canvas = chord([t.fail.s()], behind) if before == "chord" else t.fail.s() | behind
    result = canvas.apply_async()
    work()
    assert result.failed()
    assert not any(name == "note" for name, *_ in t.ran)


def test_a_chord_in_a_group_behind_a_failed_group_has_the_error_itself(t: Any, work: Work) -> None:
    inner = chord([t.same.s(), t.add.s(1)], t.total.s().on_error(t.tell.s()))
    result = chord([t.fail.s(), t.same.s(1)], group(t.total.s(), inner)).apply_async()
    work()
    assert [repr(each.result) for each in result] == ["ValueError('deliberate')"] * 2
    assert told(t) == [(result[1].id, "ValueError('deliberate')")]


def test_a_chord_in_a_group_fails_with_its_own_header(t: Any, work: Work) -> None:
    inner = chord([t.fail.s(), t.total.s()], t.total.s())
    result = chord([t.same.s(1)], group(t.total.s(), inner)).apply_async()
    work()
    assert result[0].result == 1
    assert isinstance(result[1].result, ChordError)


def test_a_chord_error_names_the_task_that_failed_also_behind_a_chord(t: Any, work: Work) -> None:
    failing = t.fail.s()
    failing.freeze()
    canvas = chord([failing], chord([t.total.s(), t.same.s()], t.total.s()))
    result = canvas.apply_async()
    work()
    assert str(result.result) == f"Dependency {failing.id} raised ValueError('deliberate')"


def test_nothing_runs_behind_an_empty_body_if_the_header_failed(t: Any, work: Work) -> None:
    nothing = group(iter([]))
    canvas = group(t.fail.s(), t.same.s(1)) | nothing | chain(t.total.s(), t.same.s())
    result = canvas.apply_async()
    work()
    assert result.state == "FAILURE"
    assert not any(name == "total" for name, *_ in t.ran)


def test_a_task_whose_result_is_ignored_tells_that_it_could_not_run(t: Any, work: Work) -> None:
    result = chain(t.fail.s(), t.same.s().set(ignore_result=True)).apply_async()
    work()
    assert result.state == "FAILURE"
    assert isinstance(result.result, ValueError)


@pytest.mark.parametrize("when", ["before", "applied"])
def test_links_of_a_chain_that_ends_as_a_group_are_for_each_of_its_tasks(
    t: Any, work: Work, when: str
) -> None:
    canvas = chain(t.same.s(1), group(t.add.s(1), t.add.s(2)))
    link = t.same.s()
    link.freeze()
    if when == "before":
        canvas.link(link)
    result = canvas.apply_async(link=None if when == "before" else link)
    work()
    assert result.get(timeout=1) == [2, 3]
    assert sorted(each for each in t.ran if each[0] == "same") == [
        ("same", 1),
        ("same", 2),
        ("same", 3),
    ]


def test_links_of_a_call_take_the_place_of_those_of_a_chain(t: Any, work: Work) -> None:
    canvas = chain(t.add.s(1, 1), t.add.s(1))
    canvas.link(t.same.si("its own"))
    canvas.apply_async(link=t.same.si("of the call"))
    work()
    assert [each for each in t.ran if each[0] == "same"] == [("same", "of the call")]


def test_behind_an_empty_header_is_the_error_of_what_was_before_the_group(
    t: Any, work: Work
) -> None:
    group_behind = chain(t.fail.s(), group(t.same.s(), t.same.s()))
    body = chord([t.same.s(), t.same.s()], t.total.s())
    result = chain(group_behind, chord([], body)).apply_async()
    work()
    assert repr(result.result) == "ValueError('deliberate')"
