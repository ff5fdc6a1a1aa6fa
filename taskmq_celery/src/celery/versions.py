"""The version of Celery that this stands for.

It is that of the installed distribution ``celery``, which is what other packages' requirements were
compared with. A module of its own: it is read when it is asked for, since that takes longer than
everything else in `celery`.
"""

from __future__ import annotations

from importlib import metadata
from typing import NamedTuple

__all__ = ("VERSION", "VERSION_BANNER", "__version__", "version_info", "version_info_t")

SERIES = "taskmq"


class version_info_t(NamedTuple):  # noqa: N801  # Celery's name
    """The parts of a version of Celery."""

    major: int
    minor: int
    micro: int
    releaselevel: str
    serial: str


def _installed() -> str:
    try:
        return metadata.version("celery")
    except metadata.PackageNotFoundError:
        return "5.6.3+taskmq"


def _parts(text: str) -> version_info_t:
    release, _, local = text.partition("+")
    major, minor, micro = (int(part) for part in release.split(".")[:3])
    return version_info_t(major, minor, micro, f"+{local}" if local else "", "")


__version__ = _installed()
VERSION = version_info = _parts(__version__)
VERSION_BANNER = f"{__version__} ({SERIES})"
