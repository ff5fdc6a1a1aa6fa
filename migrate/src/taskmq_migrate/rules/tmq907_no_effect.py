"""Doctor: settings that have no effect here."""

from __future__ import annotations

from collections.abc import Iterator

from taskmq_migrate.model import Example, Page, Safety, Site
from taskmq_migrate.noeffect import without_effect
from taskmq_migrate.pythonfile import PythonFile
from taskmq_migrate.rule import PythonRule
from taskmq_migrate.settingsites import settings_in

__all__ = ["RULE"]

REASONS = without_effect()


class NoEffect(PythonRule):
    id = "TMQ907"
    title = "a setting has no effect on the shim"
    safety = Safety.REPORT_ONLY
    words = ("elery", "CELERY", *sorted(REASONS))
    doctor = True
    page = Page(
        why="The shim takes every setting of Celery 5, and some mean nothing to it: a worker logs "
        "those, each with the reason, and this says so before you start one. They may stay, for "
        "as long as a real Celery reads them as well.",
        risk="None: nothing is changed.",
        examples=(
            Example(
                "app.py",
                before='from celery import Celery\n\napp = Celery("shop")\n'
                "app.conf.update(broker_heartbeat=10, result_expires=60)\n"
                "app.conf.worker_pool_restarts = True\n",
                reports=2,
            ),
            Example(
                "shop/settings.py",
                before="CELERY_BROKER_POOL_LIMIT = 1\nCELERY_TASK_SERIALIZER = 'json'\n",
                others={
                    "shop/celery.py": "from celery import Celery\n\n"
                    'app = Celery("shop")\n'
                    'app.config_from_object("django.conf:settings", namespace="CELERY")\n'
                },
                reports=1,
            ),
        ),
    )

    def sites(self, file: PythonFile) -> Iterator[Site]:
        for node, name, _ in settings_in(file):
            if name in REASONS:
                yield file.report_at(node, f"{name} has no effect: {REASONS[name]}")


RULE = NoEffect()
