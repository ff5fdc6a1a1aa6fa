"""``celery`` in the arguments of ``setup()``."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from taskmq_migrate.dependencies import SHIM, SHIM_VERSIONS, find_celery
from taskmq_migrate.model import Example, Page, Site
from taskmq_migrate.names import literal_text
from taskmq_migrate.pythonfile import PythonFile
from taskmq_migrate.rule import PythonRule

__all__ = ["RULE"]

ARGUMENTS = frozenset({"install_requires", "setup_requires", "tests_require", "extras_require"})
SETUP = ("setuptools.setup", "distutils.core.setup", "setup")


class SetupPy(PythonRule):
    id = "TMQ005"
    title = "celery in the arguments of setup() becomes taskmq-celery"
    words = ("celery", "Celery")
    strict_words = True
    page = Page(
        why="The shim is installed instead of Celery, never beside it. Lists that setup() is given "
        "by name are followed.",
        risk="None. Requirements that are read from a file are rewritten there.",
        examples=(
            Example(
                "setup.py",
                before="from setuptools import setup\n\nNEEDED = ['celery>=5']\n"
                "setup(install_requires=NEEDED)\n",
                after=f"from setuptools import setup\n\nNEEDED = ['{SHIM}{SHIM_VERSIONS}']\n"
                "setup(install_requires=NEEDED)\n",
            ),
        ),
    )

    def sites(self, file: PythonFile) -> Iterator[Site]:
        for call in file.nodes(cst.Call):
            if not file.is_(call.func, *SETUP):
                continue
            for argument in call.args:
                if argument.keyword is not None and argument.keyword.value in ARGUMENTS:
                    for text in _strings(file, argument.value, 3):
                        yield from self._convert(file, text)

    def _convert(self, file: PythonFile, node: cst.SimpleString) -> Iterator[Site]:
        celery = find_celery(literal_text(node) or "")
        if celery is not None:
            text = f"{node.prefix}{node.quote}{celery.as_shim()}{node.quote}"
            yield file.convert_at(node, f"celery becomes {SHIM}", file.swap(node, text))


def _strings(file: PythonFile, node: cst.CSTNode, depth: int) -> Iterator[cst.SimpleString]:
    """The strings in a literal, and in literals that names in it stand for."""
    if isinstance(node, cst.SimpleString):
        yield node
    elif isinstance(node, cst.Name) and depth:
        value, _ = file.bound_to(node)
        if value is not None:
            yield from _strings(file, value, depth - 1)
    elif isinstance(node, cst.Dict):
        for element in node.elements:
            yield from _strings(file, element.value, depth)
    elif isinstance(node, cst.List | cst.Tuple | cst.Set):
        for item in node.elements:
            yield from _strings(file, item.value, depth)
    elif isinstance(node, cst.BinaryOperation):
        yield from _strings(file, node.left, depth)
        yield from _strings(file, node.right, depth)


RULE = SetupPy()
