"""Time limits that a worker has for jobs that come without."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.waiting import PATIENCE

from taskmq import App, Config, ConfigError
from taskmq.context import current_task
from taskmq.envelope import Envelope, load
from taskmq.worker import Worker

Limits = tuple[float | None, float | None]


@pytest.fixture
def app() -> App:
    made = App(Config(transport="memory://", pool="threads", concurrency=1))

    @made.task(name="limits")
    def limits() -> list[float | None]:
        envelope: Envelope = load(current_task().delivery.envelope)
        return [envelope.timeout, envelope.hard_timeout]

    return made


@pytest.mark.parametrize(
    ("of_the_task", "of_the_job", "expected"),
    [
        ((None, None), {}, [None, None]),
        ((3.0, 5.0), {}, [3.0, 5.0]),
        ((3.0, None), {"hard_timeout": 9.0}, [3.0, 9.0]),
        ((3.0, 5.0), {"timeout": 4.0}, [4.0, 5.0]),
        ((3.0, 5.0), {"timeout": 7.0}, [7.0, None]),  # they would contradict each other
        ((3.0, 5.0), {"timeout": 1.0, "hard_timeout": 2.0}, [1.0, 2.0]),
    ],
)
def test_a_job_without_limits_has_those_of_its_task(
    app: App,
    run_worker: Callable[..., Any],
    of_the_task: Limits,
    of_the_job: dict[str, float],
    expected: list[float | None],
) -> None:
    worker = run_worker(app).worker
    worker.limit_time("limits", *of_the_task)
    job = app.submit(app.tasks["limits"].call().options(**of_the_job))
    assert job.get(PATIENCE) == expected


def test_they_may_be_taken_back_and_have_to_fit(app: App, run_worker: Callable[..., Any]) -> None:
    with pytest.raises(RuntimeError, match="does not run"):
        Worker(app).limit_time("limits", 1.0)
    worker = run_worker(app).worker
    worker.limit_time("limits", 1.0)
    worker.limit_time("limits")
    assert app.tasks["limits"].submit().get(PATIENCE) == [None, None]
    with pytest.raises(ConfigError, match="must be less than hard_timeout"):
        worker.limit_time("limits", 5.0, 1.0)
