import django
from django.conf import settings
from shop import celery_app

django.setup()


def test_tasks_are_found_and_run():
    from orders.tasks import is_eager, total

    assert "orders.tasks.total" in celery_app.tasks or total.name == "orders.tasks.total"
    assert total.delay([1, 2, 3]).get() == 6
    assert is_eager.delay().get() is True


def test_settings_of_django():
    assert celery_app.conf.worker_max_tasks_per_child == 100
    assert celery_app.conf.task_always_eager is True
    assert settings.SECRET_KEY == "not secret"
