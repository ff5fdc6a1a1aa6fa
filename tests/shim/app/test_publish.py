"""Calling tasks: options, routes, what is stored, what is told."""

# mypy: disable-error-code="untyped-decorator"
# Celery's decorators carry no types.

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from typing import Any

import pytest
from kombu.entity import Exchange, Queue
from kombu.exceptions import EncodeError

from celery import signals
from celery.exceptions import AlwaysEagerIgnored, ImproperlyConfigured, QueueNotFound
from taskmq.envelope import Envelope, load
from taskmq_celery.engine import engine_for

pytestmark = pytest.mark.unit

MakeApp = Callable[..., Any]
UTC = datetime.timezone.utc


def envelope(app: Any, result: Any) -> Envelope:
    record = engine_for(app).transport.get([str(result)])[0]
    assert record is not None
    return load(record.envelope)


@pytest.fixture
def add(app: Any) -> Any:
    @app.task
    def add(x: int, y: int = 2) -> int:
        return x + y

    return add


def test_a_plain_call_stores_little_beside_its_arguments(app: Any, add: Any) -> None:
    result = add.delay(1, y=5)
    stored = envelope(app, result)
    assert (stored.id, stored.task, stored.queue) == (result.id, add.name, "celery")
    assert (bytes(stored.args), bytes(stored.kwargs)) == (b"[1]", b'{"y":5}')
    assert stored.codec == "kombu-json"
    assert (stored.ack, stored.priority, stored.eta) == ("on_success", 0, None)
    assert set(stored.headers) == {"origin"}


def test_options_of_a_call(app: Any, add: Any) -> None:
    result = add.apply_async(
        (1,),
        queue="fast",
        countdown=60,
        expires=3600,
        priority=3,
        task_id="mine",
        headers={"tenant": "t1"},
        shadow="other",
        ignore_result=True,
        time_limit=9,
        MessageGroupId="g",
    )
    stored, now = envelope(app, result), engine_for(app).clock.now()
    assert (result.id, stored.id, stored.queue, stored.priority) == ("mine", "mine", "fast", 3)
    assert stored.eta == pytest.approx(now + 60, abs=5)
    assert stored.expires_at == pytest.approx(now + 3600, abs=5)
    assert (stored.store_result, stored.result_ttl) == (False, 0)
    del stored.headers["origin"]
    assert stored.headers == {
        "tenant": "t1",
        "shadow": "other",
        "ignore_result": True,
        "timelimit": [9, None],
        "properties": {"MessageGroupId": "g"},
    }
    assert result.get() is None


@pytest.mark.parametrize(
    ("eta", "zone", "meant"),
    [
        (datetime.datetime(2040, 1, 1, 12, tzinfo=UTC), "UTC", 12),
        (datetime.datetime(2040, 1, 1, 12), "UTC", 12),  # naive is what is tested
        (datetime.datetime(2040, 1, 1, 12), "Europe/Berlin", 11),  # the same
        ("2040-01-01T12:00:00Z", "UTC", 12),
    ],
)
def test_an_eta_is_meant_in_the_apps_time_zone(
    make_app: MakeApp, eta: Any, zone: str, meant: int
) -> None:
    app = make_app(timezone=zone)
    result = app.send_task("any", eta=eta, expires=eta)
    instant = datetime.datetime(2040, 1, 1, meant, tzinfo=UTC).timestamp()
    assert (envelope(app, result).eta, envelope(app, result).expires_at) == (instant, instant)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda f: f.delay(), "missing 1 required positional argument: 'x'"),
        (lambda f: f.delay(1, 2, 3), "takes from 1 to 2 positional arguments but 3 were given"),
        (lambda f: f.delay(1, z=3), "unexpected keyword argument 'z'"),
        (lambda f: f.apply_async("ab"), "task args must be a list or tuple"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_at_once(
    add: Any, call: Callable[[Any], Any], text: str
) -> None:
    with pytest.raises(TypeError, match=text):
        call(add)


def test_without_typing_arguments_are_not_checked(make_app: MakeApp) -> None:
    app = make_app(strict_typing=False)

    @app.task
    def loose(x: int) -> None: ...

    @app.task(typing=True)
    def strict(x: int) -> None: ...

    loose.delay()
    with pytest.raises(TypeError, match="missing"):
        strict.delay()


def test_arguments_that_cannot_be_sent_are_refused_at_once(app: Any, add: Any) -> None:
    with pytest.raises(EncodeError, match="type set is not JSON serializable"):
        add.delay({1, 2})
    assert engine_for(app).transport.stats() == []


def test_a_serializer_has_to_be_accepted(make_app: MakeApp, work: Any) -> None:
    app = make_app()
    with pytest.raises(ImproperlyConfigured, match="serializer 'pickle' is not accepted here"):
        app.send_task("any", serializer="pickle")
    trusting = make_app(accept_content=["json", "pickle"])

    @trusting.task(serializer="pickle")
    def count(values: set[int]) -> Any:
        return {len(values)}

    result = count.delay({1, 2})
    work(trusting)
    assert result.get(timeout=1) == {2}


@pytest.mark.parametrize(
    ("routes", "queue"),
    [
        ({"feeds.*": {"queue": "feeds"}}, "feeds"),
        ({"feeds.pull": "pulled", "feeds.*": "feeds"}, "pulled"),
        ([("other.*", "x"), (re.compile(r"feeds\..*"), {"queue": "regex"})], "regex"),
        (
            [lambda name, args, kwargs, options, task=None, **kw: {"queue": f"of-{name}"}],
            "of-feeds.pull",
        ),
        ({"other.*": "x"}, "celery"),
    ],
)
def test_routes_choose_the_queue(make_app: MakeApp, routes: Any, queue: str) -> None:
    app = make_app(task_routes=routes)
    assert envelope(app, app.send_task("feeds.pull")).queue == queue
    assert envelope(app, app.send_task("feeds.pull", queue="asked")).queue == "asked"


def test_a_route_may_bring_further_options(make_app: MakeApp) -> None:
    app = make_app(task_routes={"a": {"queue": "q", "priority": 7}}, task_default_priority=2)
    assert envelope(app, app.send_task("a")).priority == 7
    assert envelope(app, app.send_task("a", priority=1)).priority == 1
    assert envelope(app, app.send_task("b")).priority == 2


def test_declared_queues_are_found_by_name_exchange_and_key(make_app: MakeApp) -> None:
    media = Exchange("media", type="topic")
    queues = [Queue("celery"), Queue("video", media, routing_key="media.video")]
    app = make_app(task_queues=queues, task_create_missing_queues=False)
    sent = app.send_task("a", exchange="media", routing_key="media.video")
    assert envelope(app, sent).queue == "video"
    assert envelope(app, app.send_task("a", routing_key="media.video")).queue == "video"
    assert envelope(app, app.send_task("a")).queue == "celery"
    with pytest.raises(QueueNotFound, match="Queue 'nowhere' missing from task_queues"):
        app.send_task("a", queue="nowhere")


@pytest.mark.parametrize(
    ("late", "ack"), [(None, "on_success"), (True, "on_success"), (False, "on_receipt")]
)
def test_delivery_is_at_least_once_unless_early_acks_were_asked_for(
    make_app: MakeApp, late: bool | None, ack: str
) -> None:
    app = make_app()

    @app.task(acks_late=late)
    def f() -> None: ...

    assert envelope(app, f.delay()).ack == ack
    named = make_app(**({} if late is None else {"task_acks_late": late}))
    assert envelope(named, named.send_task("any")).ack == ack


def test_signals_show_the_message_and_can_add_headers(app: Any, add: Any) -> None:
    told: list[Any] = []

    def before(sender: Any = None, headers: Any = None, body: Any = None, **kwargs: Any) -> None:
        headers["trace"] = "t-1"
        told.append((sender, headers["argsrepr"], body[0], sorted(kwargs)))

    def after(sender: Any = None, headers: Any = None, **kwargs: Any) -> None:
        told.append((sender, headers["id"], kwargs["routing_key"]))

    signals.before_task_publish.connect(before)
    signals.after_task_publish.connect(after)
    result = add.delay(1)
    assert told == [
        (
            add.name,
            "(1,)",
            (1,),
            ["declare", "exchange", "properties", "retry_policy", "routing_key", "signal"],
        ),
        (add.name, result.id, "celery"),
    ]
    assert envelope(app, result).headers["trace"] == "t-1"


def test_an_id_of_ones_own_can_be_used_again(app: Any, add: Any, work: Any) -> None:
    runs = []

    @app.task
    def run(n: int) -> int:
        runs.append(n)
        return n

    assert run.apply_async((1,), task_id="daily").id == "daily"
    run.apply_async((2,), task_id="daily")  # the first is still waiting: both run, as in Celery
    work(app)
    assert sorted(runs) == [1, 2]
    result = run.apply_async((3,), task_id="daily")
    assert result.state == "PENDING"
    work(app)
    assert result.get() == 3


def test_send_task_takes_no_notice_of_eager_mode(make_app: MakeApp) -> None:
    app = make_app(task_always_eager=True)
    with pytest.warns(AlwaysEagerIgnored):
        result = app.send_task("any")
    with pytest.warns(RuntimeWarning, match="task_always_eager"):
        assert result.state == "PENDING"


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"broker": "sqs://"}, "broker sqs:// is not supported yet: set broker_url"),
        ({"backend": "django-db"}, "result backend 'django-db' is not there: No module named"),
        ({"result_expires": "soon"}, "result_expires must be seconds or a timedelta"),
    ],
)
def test_what_the_engine_cannot_do_is_one_clear_line(
    make_app: MakeApp, settings: dict[str, Any], text: str
) -> None:
    with pytest.raises(ImproperlyConfigured, match=text) as raised:
        make_app(**settings).send_task("any")
    assert "\n" not in str(raised.value)


def test_called_by_name_the_task_says_whether_its_result_is_wanted(
    make_app: MakeApp, work: Any
) -> None:
    app = make_app()
    seen: dict[str, Any] = {}

    @app.task(bind=True, name="quiet", ignore_result=True)
    def quiet(self: Any) -> None:
        seen[self.request.id] = self.request.ignore_result

    app.finalize()
    told = []
    signals.before_task_publish.connect(see := lambda headers, **_: told.append(headers))
    sent = [app.send_task("quiet"), app.send_task("quiet", ignore_result=False), quiet.delay()]
    work(app)
    assert [each["ignore_result"] for each in told] == [None, False, True]
    assert [seen[one.id] for one in sent] == [True, False, True]
    assert [one.state for one in sent] == ["PENDING", "SUCCESS", "PENDING"]
    signals.before_task_publish.disconnect(see)
