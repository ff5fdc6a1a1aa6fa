"""``self.retry`` and ``autoretry_for``."""

# mypy: disable-error-code="untyped-decorator"
# Celery's decorators carry no types.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from celery.exceptions import MaxRetriesExceededError, Retry
from celery.utils.time import get_exponential_backoff_interval

pytestmark = pytest.mark.unit


@pytest.fixture
def runs() -> list[Any]:
    return []


def test_a_retry_counts_up_to_the_ceiling(app: Any, runs: list[Any], work: Any) -> None:
    @app.task(bind=True, max_retries=2)
    def stubborn(self: Any, x: int) -> None:
        runs.append(self.request.retries)
        raise self.retry(countdown=0)

    result = stubborn.delay(1)
    work(app)
    assert runs == [0, 1, 2]
    with pytest.raises(MaxRetriesExceededError, match="Can't retry") as raised:
        result.get(timeout=1)
    assert f"{stubborn.name}[{result.id}] args:(1,) kwargs:{{}}" in str(raised.value)


def test_after_the_ceiling_the_error_itself_comes_out(app: Any, work: Any) -> None:
    @app.task(bind=True, max_retries=1)
    def stubborn(self: Any) -> None:
        try:
            raise ValueError("deep down")
        except ValueError as error:
            raise self.retry(exc=error, countdown=0) from error

    result = stubborn.delay()
    work(app)
    with pytest.raises(ValueError, match="deep down"):
        result.get(timeout=1)


def test_the_state_is_retry_until_it_runs_to_its_end(app: Any, work: Any) -> None:
    @app.task(bind=True)
    def later(self: Any) -> str:
        if self.request.retries:
            return "done"
        raise self.retry(exc=OSError("busy"), countdown=3600)

    result = later.delay()
    work(app)
    assert result.state == "RETRY"
    assert isinstance(result.result, OSError)
    assert not result.ready()


def test_a_retry_may_change_the_message(app: Any, runs: list[Any], work: Any) -> None:
    @app.task(bind=True)
    def move(self: Any, x: int, y: int = 0) -> Any:
        request = self.request
        runs.append((x, y, request.delivery_info["routing_key"], request.get("tenant")))
        if request.retries == 0:
            raise self.retry(
                args=(x + 1,),
                kwargs={"y": 5},
                queue="other",
                priority=7,
                headers={"tenant": "t"},
                countdown=0,
            )
        return request.delivery_info["priority"]

    result = move.delay(1)
    work(app, "celery", "other")
    assert runs == [(1, 0, "celery", None), (2, 5, "other", "t")]
    assert result.get(timeout=1) == 7


def test_a_retry_without_throw_lets_the_body_end(app: Any, runs: list[Any], work: Any) -> None:
    @app.task(bind=True)
    def twice(self: Any) -> str:
        if self.request.retries == 0:
            runs.append(type(self.retry(throw=False, countdown=0)).__name__)
        runs.append(self.request.retries)
        return "done"

    result = twice.delay()
    work(app)
    assert runs == ["Retry", 0, 1]
    assert result.get(timeout=1) == "done"


def test_a_chained_task_keeps_its_input_when_it_is_retried(
    app: Any, runs: list[Any], work: Any
) -> None:
    @app.task
    def one() -> int:
        return 1

    @app.task(bind=True)
    def flaky(self: Any, x: int, y: int) -> Any:
        runs.append((x, y))
        if self.request.retries == 0:
            raise self.retry(countdown=0)
        if self.request.retries == 1:
            raise self.retry(countdown=0, args=(x + 10, y))
        return x + y

    result = (one.s() | flaky.s(2)).apply_async()
    work(app)
    assert runs == [(1, 2), (1, 2), (11, 2)]
    assert result.get(timeout=1) == 13


def test_called_directly_a_retry_raises_the_error(app: Any) -> None:
    @app.task(bind=True)
    def f(self: Any, error: Exception | None) -> None:
        raise self.retry(exc=error)

    with pytest.raises(KeyError, match="gone"):
        f(KeyError("gone"))
    with pytest.raises(Retry, match="Task can be retried"):
        f(None)


@pytest.mark.parametrize(
    ("options", "ran"),
    [
        ({"autoretry_for": (KeyError,), "default_retry_delay": 0}, 4),
        ({"autoretry_for": (KeyError,), "retry_kwargs": {"max_retries": 1, "countdown": 0}}, 2),
        ({"autoretry_for": (OSError,), "default_retry_delay": 0}, 1),
        (
            {"autoretry_for": (Exception,), "dont_autoretry_for": (KeyError,)}
            | {"default_retry_delay": 0},
            1,
        ),
    ],
)
def test_autoretry(app: Any, runs: list[Any], work: Any, options: dict[str, Any], ran: int) -> None:
    @app.task(**options)
    def fails() -> None:
        runs.append(1)
        raise KeyError("gone")

    result = fails.delay()
    work(app)
    assert len(runs) == ran
    with pytest.raises(KeyError, match="gone"):
        result.get(timeout=1)


@pytest.mark.parametrize(
    ("options", "delays"),
    [
        ({"retry_backoff": True, "retry_jitter": False}, [1, 2, 4]),
        ({"retry_backoff": 3, "retry_jitter": False, "retry_backoff_max": 10}, [3, 6, 10]),
        ({"retry_kwargs": {"countdown": 7}}, [7, 7, 7]),
        ({}, [180, 180, 180]),
    ],
)
def test_the_delays_of_autoretry(app: Any, options: dict[str, Any], delays: list[int]) -> None:
    @app.task(autoretry_for=(KeyError,), **options)
    def fails() -> None:
        raise KeyError("gone")

    def delay_of(retries: int) -> Any:
        fails.push_request(id="x", args=(), kwargs={}, retries=retries, called_directly=False)
        try:
            with pytest.raises(Retry) as raised:
                fails.run()
        finally:
            fails.pop_request()
        return raised.value.when

    assert [delay_of(retries) for retries in range(3)] == delays


def test_jitter_is_at_most_the_backoff() -> None:
    drawn = {get_exponential_backoff_interval(4, 3, 600, full_jitter=True) for _ in range(300)}
    assert max(drawn) <= 32
    assert len(drawn) > 5
    assert get_exponential_backoff_interval(1, 5000, 600) == 600


def test_a_class_based_task_retries_by_itself_too(
    app: Any, runs: list[Any], work: Callable[..., None]
) -> None:
    class Fetch(app.Task):  # type: ignore[misc]  # made at run time
        name = "fetch"
        autoretry_for = (OSError,)
        default_retry_delay = 0

        def run(self) -> str:
            runs.append(self.request.retries)
            if len(runs) < 3:
                raise OSError("no route")
            return "page"

    fetch = app.register_task(Fetch())
    result = fetch.delay()
    work(app)
    assert runs == [0, 1, 2]
    assert result.get(timeout=1) == "page"
