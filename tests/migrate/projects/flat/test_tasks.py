import pytest
from tasks import add, app, flaky, slow


def test_results():
    assert add.delay(2, 3).get() == 5
    assert add.apply_async((2,), {"y": 5}).get() == 7
    assert slow.name == "tasks.slow"


def test_retries():
    assert flaky.delay(2).get() == 2
    with pytest.raises(ValueError, match="not yet"):
        flaky.delay(9).get()


def test_settings_by_their_present_names():
    assert app.conf.worker_concurrency == 3
    assert app.conf.result_expires == 60


def test_settings_of_celery_alone():
    assert app.conf.task_routes == {"tasks.slow": {"queue": "slow"}}
    assert app.conf.task_eager_propagates is False
