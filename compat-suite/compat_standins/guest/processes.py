"""What `get_running_processes_info` of pytest-celery lists: the processes of a container.

pytest-celery copies the source of this module into each worker's volume, as ``utils.py``: it stands
alone. A container in Docker sees its own processes only; here the others are left out.
"""

from __future__ import annotations

import json
import os

import psutil  # type: ignore[import-untyped]

VARIABLE = "COMPAT_STANDIN"
COLUMNS = ("pid", "name", "username", "cmdline", "cpu_percent", "memory_percent", "create_time")


def is_own(process: psutil.Process) -> bool:
    """Whether a process belongs to this container; one that has just ended does not."""
    try:
        return bool(process.environ().get(VARIABLE) == os.environ[VARIABLE])
    except psutil.Error:
        return False


def get_running_processes_info(columns: list[str] | None = None) -> str:
    """What is known of each process, as JSON; all columns by default."""
    wanted = list(columns or COLUMNS)
    return json.dumps([each.info for each in psutil.process_iter(wanted) if is_own(each)])
