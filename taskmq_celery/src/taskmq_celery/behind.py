"""Where jobs are kept behind a broker that only delivers (RabbitMQ), if no store was named.

They go into a file of this user on this machine. The queues at the broker are this file's own: a
worker elsewhere, which could not find the jobs, is not sent them.
"""

from __future__ import annotations

import logging
import os
import platform
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

__all__ = ["local_store"]

logger = logging.getLogger("celery.worker")

TOLD: set[str] = set()
"""Files that were told of: once for a process is enough."""

CHOOSE = (
    "say where they are to be, with broker_transport_options={'state': 'postgresql://…'} or a "
    "result_backend in Redis, PostgreSQL or another database"
)


def local_store(broker: str) -> tuple[str, Mapping[str, str]]:
    """The URL of a store in a file, and further options for the broker.

    ``broker`` is the address of the broker, without scheme and options.
    """
    path = _file_for(broker)
    if str(path) not in TOLD:
        TOLD.add(str(path))
        logger.warning(
            "The broker only delivers: jobs are kept in %s, which programs on other machines and "
            "of other users do not see; %s",
            path,
            CHOOSE,
        )
    node = re.sub(r"[^A-Za-z0-9.-]", "-", platform.node())
    return f"sqlite:///{quote(str(path))}", {"namespace": f"taskmq-{os.getuid()}-{node}"[:64]}


def _file_for(broker: str) -> Path:
    """``$XDG_STATE_HOME/taskmq/HOST-PORT-VHOST.db``, made known by the address of the broker."""
    parts = urlsplit(f"//{broker}")
    place = f"{parts.hostname or 'localhost'}-{parts.port or 5672}-{unquote(parts.path) or '/'}"
    name = re.sub(r"[^A-Za-z0-9.-]", "_", place)
    for folder in _folders():
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder / f"{name}.db"
    raise OSError(f"no folder to keep jobs in: {CHOOSE}")


def _folders() -> list[Path]:
    state = os.environ.get("XDG_STATE_HOME")
    home = [Path(state)] if state else [Path("~/.local/state").expanduser()]
    return [*(one / "taskmq" for one in home), Path(tempfile.gettempdir(), f"taskmq-{os.getuid()}")]
