"""Calls become envelopes, many at once as one by one; what they share is found once."""

import msgspec
import pytest

from taskmq import App, Config, MessageTooLarge, QueueConfig
from taskmq.call import Call, Options
from taskmq.envelope import OWN, Dependency, Envelope, Sealed, load
from taskmq.errors import EncodeError
from taskmq.limits import Capacity

NOW = 1_000.0


def anything(*args: object, **kwargs: object) -> None: ...


def make_app(**config: object) -> App:
    queues = {"tight": QueueConfig(capacity=5)}
    app = App(Config(transport="memory://", queues=queues, **config))  # type: ignore[arg-type]
    app.task(name="plain")(anything)
    app.task(name="due", expires=60.0, priority=3, queue="tight")(anything)
    app.task(name="keyed", dedup="for:{who}")(lambda who: None)
    return app


def calls_of(app: App) -> list[Call[object]]:
    plain, due, keyed = (app.tasks[name] for name in ("plain", "due", "keyed"))
    shared = Options(eta=5.0, headers={"tenant": 7}, timeout=2.0)
    return [
        plain.call(1),
        plain.call("null", b="x"),
        plain.call(None),
        Call(plain, (2,), {}, shared),
        Call(plain, (3,), {}, shared, after=(Dependency("J0"),), feeds=True, workflow="W"),
        Call(plain, (4,), {}, shared, workflow="W", run_if="failed"),
        due.call(),
        due.call(1),
        keyed.call("a"),
        keyed.call("b"),
        plain.call(9).options(id="own"),
    ]


def without_id(envelope: Envelope) -> dict[str, object]:
    fields = msgspec.structs.asdict(envelope)
    del fields["id"]
    return fields


@pytest.mark.parametrize("serializer", ["msgspec", "json"])
@pytest.mark.parametrize("has_types", [False, True])
def test_many_are_sealed_as_each_alone(serializer: str, has_types: bool) -> None:
    app = make_app(serializer=serializer)
    if has_types:
        app.register_codec(complex, encode=str, decode=complex)
    calls = calls_of(app)
    many, alone = app.seal_many(calls, NOW), [app.seal(call, NOW) for call in calls]
    for one, other in zip(many, alone, strict=True):
        assert without_id(one.envelope) == without_id(other.envelope)
        assert one.capacity == other.capacity
        assert load(one.data) == one.envelope
        assert load(other.data) == other.envelope
    assert [one.envelope.enqueued_at for one in many] == [NOW] * len(calls)
    assert many[6].capacity == Capacity(5, "reject")
    assert many[-1].envelope.id == "own"
    assert len({one.envelope.id for one in many}) == len(calls)
    assert [one.envelope.dedup for one in many[8:10]] == ["for:a", "for:b"]


def test_what_is_alike_has_one_pattern_which_says_all_but_its_own_fields() -> None:
    app = make_app()
    plain = app.tasks["plain"]
    many = app.seal_many([plain.call(number) for number in range(5)], NOW)
    assert len({id(one.pattern) for one in many}) == 1
    for one in app.seal_many(calls_of(app), NOW):
        assert one.pattern is not None
        own = {name: getattr(one.envelope, name) for name in OWN}
        assert msgspec.structs.replace(one.pattern, **own) == one.envelope


def test_a_pattern_is_kept_until_its_task_has_another_policy() -> None:
    app = make_app()
    plain = app.tasks["plain"]
    first, second = app.seal(plain.call(), NOW), app.seal(plain.call(), NOW + 1)
    assert first.pattern is second.pattern
    assert (first.envelope.enqueued_at, second.envelope.enqueued_at) == (NOW, NOW + 1)
    other = App(Config(transport="memory://"))
    other.task(name="plain", priority=5)(anything)
    plain.policy = other.tasks["plain"].policy
    assert app.seal(plain.call(), NOW).envelope.priority == 5
    assert app.seal(app.tasks["due"].call(), NOW + 9).envelope.expires_at == NOW + 69


def test_names_that_a_program_makes_up_do_not_pile_up() -> None:
    app = make_app()
    for number in range(1_100):
        task = app.task(name=f"made.up.{number}")(anything)
        app.seal(task.call(), NOW)
    assert len(app._sealer._patterns) <= 1_000


def test_what_one_of_a_batch_cannot_be_is_said_as_for_it_alone() -> None:
    app = make_app(max_message_bytes=300)
    plain = app.tasks["plain"]

    def error_of(value: object) -> tuple[type[Exception], str]:
        with pytest.raises((EncodeError, MessageTooLarge)) as alone:
            app.seal(plain.call(value), NOW)
        with pytest.raises((EncodeError, MessageTooLarge)) as many:
            app.seal_many([plain.call(1), plain.call(value), plain.call(2)], NOW)
        assert str(many.value) == str(alone.value)
        return alone.type, str(alone.value)

    assert error_of(object())[1].startswith("cannot encode a builtins.object")
    assert error_of([1.0, float("nan")])[1] == "cannot encode nan: JSON has no such number"
    assert error_of("x" * 300)[0] is MessageTooLarge
    bad = {"headers": {"x": float("inf")}}
    with pytest.raises(EncodeError, match="cannot encode inf"):
        app.seal_many([Call(plain, (1,), {}, Options(**bad))] * 2, NOW)  # type: ignore[arg-type]


def test_json_that_a_caller_has_written_over_several_lines_stays_whole() -> None:
    app = make_app()
    plain = app.tasks["plain"]
    lines = msgspec.Raw(b"[1,\n2]")
    many = app.seal_many([plain.call(lines), plain.call(3), plain.call(4)], NOW)
    assert [app.arguments_of(load(one.data))[0] for one in many] == [[[1, 2]], [3], [4]]


def ids_of(sealed: list[Sealed]) -> list[str]:
    return [one.envelope.id for one in sealed]


def test_ids_ascend_in_the_order_of_the_calls() -> None:
    app = make_app()
    plain = app.tasks["plain"]
    made = ids_of(app.seal_many([plain.call(number) for number in range(600)], NOW))
    assert made == sorted(made)
