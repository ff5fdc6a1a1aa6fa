from shop import celery_app
from shop.config import Base
from shop.tasks import fetch, queue


def test_tasks_of_the_package():
    celery_app.loader.import_default_modules()
    assert "shop.tasks.fetch" in celery_app.tasks
    assert fetch.delay("abc").get() == 3
    assert queue.delay().get() == "live"


def test_settings():
    assert celery_app.conf.task_default_queue == "live"
    assert Base.__name__ == "Base"


def test_settings_of_celery_alone():
    assert celery_app.conf.task_track_started is True
    assert celery_app.conf.worker_prefetch_multiplier == 1
