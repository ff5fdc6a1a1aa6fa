"""``celery`` in the environment files of conda."""

from __future__ import annotations

from collections.abc import Iterator

from taskmq_migrate.dependencies import SHIM, SHIM_VERSIONS, find_celery
from taskmq_migrate.model import Example, Page, Site
from taskmq_migrate.rule import YamlRule
from taskmq_migrate.yamlfile import YamlFile

__all__ = ["RULE"]


class Environment(YamlRule):
    id = "TMQ006"
    title = "celery among the pip packages of environment.yml becomes taskmq-celery"
    words = ("celery", "Celery")
    page = Page(
        why="The shim is installed with pip. What conda itself installs is left with a marker: the "
        "shim is no conda package.",
        risk="None for the pip section.",
        examples=(
            Example(
                "environment.yml",
                before="name: shop\ndependencies:\n  - python=3.11\n  - pip:\n"
                "    - celery==5.3.6  # queue\n",
                after="name: shop\ndependencies:\n  - python=3.11\n  - pip:\n"
                f"    - {SHIM}{SHIM_VERSIONS}  # queue\n",
            ),
            Example(
                "environment.yml",
                before="dependencies:\n  - celery=5.3\n",
                after="dependencies:\n"
                "  # TODO(taskmq-migrate TMQ006): move to the pip section, "
                f"as {SHIM}{SHIM_VERSIONS}\n"
                "  - celery=5.3\n",
            ),
        ),
    )

    def sites(self, file: YamlFile) -> Iterator[Site]:
        for scalar in () if file.is_template else file.scalars():
            if not scalar.path or scalar.path[0] != "dependencies":
                continue
            if "pip" in scalar.path:
                celery = find_celery(scalar.value)
                if celery is not None:
                    text = celery.as_shim()
                    quoted = f"{scalar.style}{text}{scalar.style}"
                    yield file.convert(
                        scalar.span, f"celery becomes {SHIM}", file.replace(scalar.span, quoted)
                    )
            elif scalar.value.partition("::")[2].startswith("celery") or (
                scalar.value.split("=")[0].split("[")[0].strip(" <>!~") == "celery"
            ):
                message = f"move to the pip section, as {SHIM}{SHIM_VERSIONS}"
                yield file.mark(scalar.span, message)


RULE = Environment()
