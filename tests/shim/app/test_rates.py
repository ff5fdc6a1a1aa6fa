"""``rate_limit`` of tasks, as the engine is told of it."""

from collections.abc import Callable
from typing import Any

import pytest

from celery import Celery
from taskmq import ConfigError, Rate
from taskmq_celery.engine import engine_for
from taskmq_celery.rates import rate_for

MakeApp = Callable[..., Celery]


@pytest.mark.parametrize(
    ("limit", "rate"),
    [
        (None, None),
        (0, None),
        ("0/m", None),
        (20, Rate(1, per=0.05)),
        ("20", Rate(1, per=0.05)),
        ("4/s", Rate(1, per=0.25)),
        ("10/m", Rate(1, per=6.0)),
        ("0.5/h", Rate(1, per=7200.0)),
    ],
)
def test_rates(limit: Any, rate: Rate | None) -> None:
    found = rate_for(limit)
    assert (found and found.amount, found and pytest.approx(found.per)) == (
        rate and rate.amount,
        rate and rate.per,
    )


@pytest.mark.parametrize("limit", ["often", "1/w", "-1/s"])
def test_what_is_no_rate(limit: str) -> None:
    with pytest.raises(ValueError, match="rate limit"):
        rate_for(limit)


def policy(app: Celery, **options: Any) -> Any:
    @app.task(name="send", **options)  # type: ignore[untyped-decorator]  # as Celery's is
    def send() -> None: ...

    app.finalize(auto=True)
    return engine_for(app).tasks.find("send").policy  # type: ignore[union-attr]


def test_each_worker_keeps_the_rate_of_a_task(make_app: MakeApp) -> None:
    found = policy(make_app(), rate_limit="10/m")
    assert (found.rate_limit.per, found.rate_scope) == (pytest.approx(6.0), "worker")


def test_the_rate_of_all_tasks(make_app: MakeApp) -> None:
    assert policy(make_app(task_default_rate_limit="2/s")).rate_limit == Rate(1, per=0.5)


def test_rates_can_be_left_aside(make_app: MakeApp) -> None:
    found = policy(make_app(worker_disable_rate_limits=True), rate_limit="10/m")
    assert found.rate_limit is None


def test_a_rate_that_is_none_is_told_of(make_app: MakeApp) -> None:
    with pytest.raises(ConfigError, match=r"rate_limit of task send: .* got 'often'"):
        policy(make_app(), rate_limit="often")
