"""What a report of a bug should tell."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Any

from kombu.utils.imports import symbol_by_name

from celery import VERSION_BANNER

from .utils import filter_hidden_settings

__all__ = ("bugreport",)

REPORT = """
software -> celery:{celery} taskmq:{taskmq} kombu:{kombu} billiard:{billiard} py:{python}
platform -> system:{system} arch:{arch}
            kernel version:{kernel} imp:{implementation}
loader   -> {loader}
settings -> broker:{broker} results:{results}

{settings}
"""


def bugreport(app: Any) -> str:
    """Versions and settings of a program, as text; without passwords and keys."""
    loader = symbol_by_name(app.loader_cls)
    shown = filter_hidden_settings(
        {
            "BROKER_URL": app.conf.broker_url,
            "RESULT_BACKEND": app.conf.result_backend or "disabled",
        }
    )
    return REPORT.format(
        celery=VERSION_BANNER,
        taskmq=_version("taskmq-py"),
        kombu=_version("kombu"),
        billiard=_version("billiard"),
        python=platform.python_version(),
        system=platform.system(),
        arch=", ".join(each for each in platform.architecture() if each),
        kernel=platform.release(),
        implementation=platform.python_implementation(),
        loader=f"{loader.__module__}.{loader.__qualname__}",
        broker=shown["BROKER_URL"],
        results=shown["RESULT_BACKEND"],
        settings=app.conf.humanize(with_defaults=False),
    )


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "?"
