"""Who reads Celery's settings through Django."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from taskmq_migrate.configstyle import Style, django_style, is_django_settings
from taskmq_migrate.model import Example, Page, Safety, Site
from taskmq_migrate.names import literal_text
from taskmq_migrate.pythonfile import PythonFile
from taskmq_migrate.rule import PythonRule

__all__ = ["RULE", "renamed"]

SETTINGS = "django.conf.settings"
READERS = frozenset({"getattr", "hasattr", "setattr", "delattr"})


class SettingsReaders(PythonRule):
    id = "TMQ032"
    title = "what reads Celery's settings through Django asks for their present names"
    words = ("CELERY", "BROKER_")
    strict_words = True
    page = Page(
        why="Where TMQ030 renames a setting, settings.CELERY_X and getattr(settings, 'CELERY_X') "
        "follow, and so does what is assigned to them, by the settings fixture of pytest-django as "
        "well: an old name would lose against the present one.",
        risk="Readers of settings that the project does not set itself are left alone.",
        examples=(
            Example(
                "shop/views.py",
                before="from django.conf import settings\n\n"
                "eager = getattr(settings, 'CELERY_ALWAYS_EAGER', False)\n",
                after="from django.conf import settings\n\n"
                "eager = getattr(settings, 'CELERY_TASK_ALWAYS_EAGER', False)\n",
                others={
                    "shop/settings.py": "CELERY_ALWAYS_EAGER = True\n",
                    "shop/celery.py": "from celery import Celery\n\napp = Celery()\n"
                    "app.config_from_object('django.conf:settings', namespace='CELERY')\n",
                },
            ),
        ),
    )

    def sites(self, file: PythonFile) -> Iterator[Site]:
        style = django_style(file.facts)
        if style is None:
            return
        defined = {
            name
            for module in file.facts.modules.values()
            if is_django_settings(file.facts, module)
            for name in module.names
        }
        for attribute in file.nodes(cst.Attribute):
            if not self._is_settings(file, attribute.value):
                continue
            old = attribute.attr.value
            assigned = isinstance(file.parent(attribute), cst.AssignTarget)
            if assigned or _renamed(style, old, defined):
                yield from renamed(file, attribute.attr, old, style)
        for call in file.nodes(cst.Call):
            yield from self._call(file, call, style, defined)

    def _call(
        self, file: PythonFile, call: cst.Call, style: Style, defined: set[str]
    ) -> Iterator[Site]:
        func = call.func
        if isinstance(func, cst.Name) and func.value in READERS and len(call.args) > 1:
            text = call.args[1].value
            old = literal_text(text) or ""
            if (
                isinstance(text, cst.SimpleString)
                and self._is_settings(file, call.args[0].value)
                and _renamed(style, old, defined)
            ):
                yield from renamed(file, text, old, style)

    def _is_settings(self, file: PythonFile, node: cst.CSTNode) -> bool:
        """Django's settings, or the fixture of that name in a test."""
        if file.is_(node, SETTINGS):
            return True
        if not isinstance(node, cst.Name) or node.value != "settings":
            return False
        function = file.enclosing(node, cst.FunctionDef)
        if function is None or not (function.name.value.startswith("test") or function.decorators):
            return False
        return any(each.name.value == "settings" for each in function.params.params)


def _renamed(style: Style, old: str, defined: set[str]) -> bool:
    """Whether the project sets a setting by its old name, and not by the new one as well."""
    return old in defined and style.spelled(old) not in defined


def renamed(
    file: PythonFile, node: cst.Name | cst.SimpleString, old: str, style: Style
) -> Iterator[Site]:
    """A name of a setting, or the text of one, by its present name."""
    new = style.spelled(old)
    if new is None:
        return
    text = f"{node.quote}{new}{node.quote}" if isinstance(node, cst.SimpleString) else new
    safety = None if style.safe else Safety.UNSAFE
    yield file.convert_at(node, f"{old} is {new} now", file.swap(node, text), safety=safety)


RULE = SettingsReaders()
