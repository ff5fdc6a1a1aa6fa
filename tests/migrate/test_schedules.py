"""Schedules on the way to the engine's: time zones, and what is computed."""

import pytest
from tests.migrate.tools import migrate

HEAD = """from celery import Celery
from celery.schedules import crontab
from datetime import timedelta

app = Celery("shop")
MINUTES = 60
EVERY = 15 * MINUTES


@app.task
def check(): ...


@app.on_after_finalize.connect
def set_up(sender, **kwargs):
    at = hash("shop") % 1440
"""
DJANGO = """from celery import Celery, shared_task
from celery.schedules import crontab

app = Celery("shop")
app.config_from_object("django.conf:settings", namespace="CELERY")


@app.task
def check(): ...


@app.on_after_finalize.connect
def set_up(sender, **kwargs):
    sender.add_periodic_task(crontab(hour=7, minute=0), check.s())
"""


@pytest.mark.parametrize(
    ("when", "after"),
    [
        ("15 * 60", "every(check.name, seconds=15 * 60)"),
        ("EVERY", "every(check.name, seconds=EVERY)"),
        (
            "timedelta(minutes=MINUTES)",
            "every(check.name, seconds=timedelta(minutes=MINUTES).total_seconds())",
        ),
        ("timedelta(minutes=2)", "every(check.name, seconds=120)"),
        (
            "crontab(hour=at // 60, minute=at % 60)",
            'cron(check.name, f"{at % 60} {at // 60} * * *")',
        ),
        ("at", ""),
        ("interval()", ""),
        ("crontab(minute=at)", ""),
        ("crontab(minute=at // 'x'.y)", ""),
    ],
)
def test_when_a_task_runs(when: str, after: str) -> None:
    before = f"{HEAD}    sender.add_periodic_task({when}, check.s())\n"
    text = migrate({"shop.py": before}, to="native", only=("TMQ161",)).text
    if after:
        assert f"    sender.schedule({after})\n" in text
    else:
        assert f"    sender.add_periodic_task({when}, check.s())\n" in text


@pytest.mark.parametrize(
    ("settings", "after"),
    [
        ("CELERY_BROKER_URL = 'redis://'\n", 'cron(check.name, "0 7 * * *")'),
        ("CELERY_TIMEZONE = 'UTC'\n", 'cron(check.name, "0 7 * * *")'),
        (
            "CELERY_ENABLE_UTC = False\nCELERY_TIMEZONE = 'Europe/Oslo'\n",
            'cron(check.name, "0 7 * * *", tz="Europe/Oslo")',
        ),
        ("CELERY_ENABLE_UTC = True\n", 'cron(check.name, "0 7 * * *")'),
        ("CELERY_ENABLE_UTC = False\n", ""),
        ("CELERY_TIMEZONE = TIME_ZONE\n", ""),
        ("CELERY_TIMEZONE = 'UTC'\nif x:\n    CELERY_TIMEZONE = zone\n", ""),
        ("class Base:\n    CELERY_TIMEZONE = 'UTC'\n", ""),
        ("", ""),
    ],
)
def test_the_time_zone_of_djangos_settings(settings: str, after: str) -> None:
    files = {"shop/__init__.py": "", "shop/app.py": DJANGO}
    if settings:
        files["shop/settings.py"] = settings
    run = migrate(files, to="native")
    assert ("sender.schedule(" in run.files["shop/app.py"]) == bool(after)
    assert after in run.files["shop/app.py"]
