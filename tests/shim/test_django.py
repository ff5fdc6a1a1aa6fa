"""A Django program: its tasks, its transactions, its connections."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

PROGRAM = """
import json, os

os.environ["DJANGO_SETTINGS_MODULE"] = "proj.settings"

from celery import Celery, signals
from celery.contrib.testing.worker import start_worker

app = Celery("proj")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()

import django
django.setup()

from django.db import connections, transaction
from shop import tasks

told = {"loader": type(app.loader).__name__}
with connections["default"].cursor() as cursor:
    cursor.execute("create table shop (number integer)")
with start_worker(app, pool="threads", perform_ping_check=False) as worker:
    signals.worker_init.send(sender=worker)
    told["count"] = tasks.count.delay().get(timeout=20)
    with transaction.atomic():
        kept = tasks.count.delay_on_commit()
        with connections["default"].cursor() as cursor:
            cursor.execute("insert into shop values (1)")
        told["within"] = list(tasks.calls)
    told["returned"] = kept
    tasks.done.wait(20)
    told["after"] = list(tasks.calls)
    try:
        with transaction.atomic():
            tasks.count.apply_async_on_commit()
            raise KeyError
    except KeyError:
        pass
    told["queued"] = app.control.purge()
told["open"] = [bool(c.connection) for c in tasks.connections_seen]
print(json.dumps(told))
"""
TASKS = """
import threading

from celery import shared_task, signals
from django.db import connection, connections

calls, done, connections_seen = [], threading.Event(), []

@shared_task
def count():
    with connection.cursor() as cursor:
        cursor.execute("select count(*) from shop")
        found = cursor.fetchone()[0]
    connections_seen.append(connections["default"])
    calls.append(found)
    if len(calls) == 2:
        done.set()
    return found
"""
SETTINGS = """
SECRET_KEY = "x"
INSTALLED_APPS = ["shop"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "FOLDER/django.db"}}
CELERY_BROKER_URL = "sqlite:///FOLDER/jobs.db"
CELERY_RESULT_BACKEND = "rpc://"
"""


def test_a_django_program(tmp_path: Path) -> None:
    for name, source in {
        "proj/__init__.py": "",
        "proj/settings.py": SETTINGS.replace("FOLDER", str(tmp_path)),
        "shop/__init__.py": "",
        "shop/tasks.py": TASKS,
        "main.py": PROGRAM,
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(source)
    done = subprocess.run(
        [sys.executable, "main.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told == {
        "loader": "AppLoader",
        "count": 0,
        "within": [0],
        "returned": None,
        "after": [0, 1],
        "queued": 0,
        "open": [False, False],
    }
