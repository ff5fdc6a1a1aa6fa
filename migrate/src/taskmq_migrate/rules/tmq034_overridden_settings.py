"""Tests that override settings of Celery in Django's."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from taskmq_migrate.configstyle import django_style
from taskmq_migrate.model import Example, Page, Site, Target
from taskmq_migrate.pythonfile import PythonFile
from taskmq_migrate.rule import PythonRule
from taskmq_migrate.rules.tmq032_settings_readers import renamed

__all__ = ["OVERRIDES", "RULE"]

OVERRIDES = ("django.test.override_settings", "django.test.utils.override_settings")


class OverriddenSettings(PythonRule):
    id = "TMQ034"
    title = "tests override Celery's settings by their present names"
    targets = frozenset({Target.SHIM})
    words = ("CELERY", "BROKER_")
    strict_words = True
    page = Page(
        why="Where TMQ030 renames a setting, override_settings(CELERY_X=…) and self.settings(…) "
        "say the present name as well, since an old one would lose against it. (On the way to the "
        "engine, TMQ170 looks at such tests.)",
        risk="None.",
        examples=(
            Example(
                "shop/tests.py",
                before="from django.test import override_settings\n\n\n"
                "@override_settings(CELERY_ALWAYS_EAGER=True)\ndef test_order(): ...\n",
                after="from django.test import override_settings\n\n\n"
                "@override_settings(CELERY_TASK_ALWAYS_EAGER=True)\ndef test_order(): ...\n",
                others={
                    "shop/app.py": "from celery import Celery\n\napp = Celery()\n"
                    "app.config_from_object('django.conf:settings', namespace='CELERY')\n",
                },
            ),
        ),
    )

    def sites(self, file: PythonFile) -> Iterator[Site]:
        style = django_style(file.facts)
        if style is None:
            return
        for call in file.nodes(cst.Call):
            if file.is_(call.func, *OVERRIDES) or _is_settings_method(call.func):
                for argument in call.args:
                    if argument.keyword is not None:
                        name = argument.keyword
                        yield from renamed(file, name, name.value, style)


def _is_settings_method(func: cst.BaseExpression) -> bool:
    """``self.settings(...)`` of Django's test cases."""
    return (
        isinstance(func, cst.Attribute)
        and func.attr.value == "settings"
        and isinstance(func.value, cst.Name)
        and func.value.value == "self"
    )


RULE = OverriddenSettings()
