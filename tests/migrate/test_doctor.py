"""What `taskmq-migrate doctor` points at, and what it leaves alone."""

import textwrap

import pytest
from tests.migrate.tools import migrate

from taskmq_celery.config import NOT_USED
from taskmq_migrate.model import Target
from taskmq_migrate.noeffect import PREFETCH, without_effect
from taskmq_migrate.registry import select
from taskmq_migrate.rule import AnyRule

TASKS = "from celery import shared_task\n\n\n@shared_task\ndef send(*args, **kwargs): ...\n"
APP = (
    "from celery import Celery\n\n"
    'app = Celery("shop")\napp.config_from_object("django.conf:settings", namespace="CELERY")\n'
)


def rule(name: str) -> tuple[AnyRule, ...]:
    return select(Target.SHIM, (name,), doctor=True)


def lines(name: str, text: str, path: str = "views.py", **others: str) -> list[int]:
    """The lines that a rule points at."""
    files = {path: textwrap.dedent(text).lstrip("\n"), "shop/tasks.py": TASKS}
    files |= {f"shop/{each}.py": content for each, content in others.items()}
    run = migrate(files, rules=rule(name))
    assert not run.result.failed
    assert run.files == files
    return sorted(each.line for each in run.result.findings if each.path == path)


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("{1}", True),
        ("{x for x in y}", True),
        ("frozenset(y)", True),
        ("(1, 2)", True),
        ("timedelta(hours=1)", True),
        ("Color.RED", True),
        ("Color.RED.value", False),
        ("Order(pk=1)", True),
        ("Order.objects.get(pk=1)", True),
        ("Order.objects.filter(a=1).first()", True),
        ("Order.objects.filter(a=1)", True),
        ("Order.objects.count()", False),
        ("Order.objects.get(pk=1).pk", False),
        ("held", True),
        ("held.pk", False),
        ("list(y)", False),
        ("[1, 2]", False),
        ("{'a': 1}", False),
        ("y", False),
    ],
)
def test_arguments_that_json_does_not_carry(argument: str, said: bool) -> None:
    text = f"""
        from datetime import timedelta
        from enum import Enum
        from django.db import models
        from django.shortcuts import get_object_or_404
        from shop.tasks import send

        class Color(Enum):
            RED = 1

        class Order(models.Model):
            pass

        def view(y):
            held = get_object_or_404(Order, pk=1)
            send.delay({argument})
            send.apply_async(kwargs=dict(x={argument}), countdown=1)
    """
    assert lines("TMQ904", text) == ([15, 16] if said else [])


@pytest.mark.parametrize(
    ("body", "options", "said"),
    [
        ("Row.objects.create(x=1)", "", True),
        ("Row.objects.get_or_create(x=1)", "", False),
        ("requests.post('/')", "", True),
        ("requests.get('/')", "", False),
        ("cache.incr('hits')", "", True),
        ("requests.post('/')", "(acks_late=False)", False),
        ("requests.post('/')", "(acks_late=None)", True),
        ("requests.post('/')", "(queue='q')", True),
    ],
)
def test_tasks_that_look_as_if_they_must_not_run_twice(body: str, options: str, said: bool) -> None:
    text = f"""
        import requests
        from celery import shared_task
        from shop.models import Row, cache

        @shared_task{options}
        def work():
            {body}

        def view():
            {body}
    """
    assert lines("TMQ905", text) == ([6] if said else [])


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("TASK_ROUTES", True),
        ("BROKER_URL", True),
        ("CELERYBEAT_SCHEDULE", True),
        ("CELERY_TASK_ROUTES", False),
        ("CELERY_BROKER_URL", False),
        ("CELERY_RESULT_BACKEND", False),
        ("TIMEZONE", False),
        ("DEBUG", False),
    ],
)
def test_settings_that_lack_their_prefix(name: str, said: bool) -> None:
    path = "shop/settings.py"
    assert lines("TMQ906", f"{name} = 1\n", path, celery=APP) == ([1] if said else [])
    assert lines("TMQ906", f"{name} = 1\n", path) == []  # nothing says how they are read


def test_settings_without_effect_are_found_however_they_are_loaded() -> None:
    text = "CELERY_BROKER_HEARTBEAT = 1\nBROKER_HEARTBEAT = 1\nOTHER = 1\n"
    assert lines("TMQ907", text, "shop/settings.py", celery=APP) == [1, 2]
    named = APP.replace('"django.conf:settings", namespace="CELERY"', '"shop.conf"')
    assert lines("TMQ907", "worker_lost_wait = 1\ncolor = 1\n", "shop/conf.py", celery=named) == [1]
    text = 'from celery import Celery\n\napp = Celery(broker_heartbeat=1)\napp.conf["timer"] = 1\n'
    assert lines("TMQ907", text) == [3]
    assert lines("TMQ907", "worker_lost_wait = 1\n", "celeryconfig.py") == [1]
    assert lines("TMQ907", "worker_lost_wait = 1\n", "other.py") == []


def test_what_has_no_effect_is_what_the_shim_says() -> None:
    assert without_effect().keys() <= NOT_USED.keys()
    assert NOT_USED.keys() >= PREFETCH


def test_options_of_workers_alone() -> None:
    text = "celery -A shop worker -O fair --time-limit=3 -c 2\ncelery -A shop beat -S x\n"
    run = migrate({"start.sh": text}, rules=rule("TMQ909"))
    assert [(each.line, each.column) for each in run.result.findings] == [(1, 23), (1, 31)]
