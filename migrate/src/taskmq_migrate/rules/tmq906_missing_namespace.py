"""Doctor: settings of Celery in Django's that lack the prefix that they are read with."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from taskmq_migrate.configstyle import django_style, is_django_settings
from taskmq_migrate.model import Example, Page, Safety, Site
from taskmq_migrate.pythonfile import PythonFile
from taskmq_migrate.rule import PythonRule
from taskmq_migrate.settingnames import NEW_NAMES, OLD_TO_NEW

__all__ = ["RULE"]

# Names that others use as well: what they mean cannot be told from them alone.
COMMON = frozenset({"TIMEZONE", "INCLUDE", "IMPORTS", "ENABLE_UTC"})
BARE = frozenset(each.upper() for each in NEW_NAMES) - COMMON


class MissingNamespace(PythonRule):
    id = "TMQ906"
    title = "a setting lacks the prefix that Celery's are read with"
    safety = Safety.REPORT_ONLY
    words = ("config_from_object", *sorted({*BARE, *OLD_TO_NEW}))
    doctor = True
    page = Page(
        why='With config_from_object("django.conf:settings", namespace="CELERY") only names that '
        "begin with CELERY_ are read, and that is followed by the present name of the setting. "
        "Others are passed over without a word: the setting never had an effect.",
        risk="None: nothing is changed. Think before you add the prefix: the setting will have "
        "an effect then.",
        examples=(
            Example(
                "shop/settings.py",
                before='BROKER_URL = "redis://db"\nTASK_ALWAYS_EAGER = True\n'
                "CELERYD_CONCURRENCY = 4\nCELERY_TASK_TIME_LIMIT = 60\nDEBUG = True\n",
                others={
                    "shop/celery.py": "from celery import Celery\n\n"
                    'app = Celery("shop")\n'
                    'app.config_from_object("django.conf:settings", namespace="CELERY")\n'
                },
                reports=3,
            ),
        ),
    )

    def sites(self, file: PythonFile) -> Iterator[Site]:
        style = django_style(file.facts)
        module = file.facts.modules.get(file.path)
        if style is None or style.adds_namespace or module is None:
            return
        if not is_django_settings(file.facts, module):
            return
        prefix = f"{style.namespace}_"
        for name in file.nodes(cst.Name):
            target = file.parent(name)
            if (
                not isinstance(target, cst.AssignTarget | cst.AnnAssign)
                or target.target is not name
            ):
                continue
            present = _present(name.value, prefix)
            if present:
                yield file.report_at(
                    name, f"{name.value} is not read: Celery looks for {prefix}{present}"
                )


def _present(name: str, prefix: str) -> str:
    """What should follow the prefix; empty for a name that is read, or is none of Celery's."""
    if name in BARE:
        return name
    new = OLD_TO_NEW.get(name, "").upper()
    if not new or not name.startswith(("CELERY", "BROKER_")):
        return ""
    return "" if name == f"{prefix}{new}" or name.removeprefix(prefix) in BARE else new


RULE = MissingNamespace()
