"""What the machine has: processors, load, disks."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from typing import Any, NamedTuple

__all__ = (
    "AUTO_CONCURRENCY",
    "CpuBudget",
    "available_cpu_count",
    "cgroup_cpu_quota",
    "cpu_budget",
    "df",
    "is_auto_concurrency",
    "load_average",
)

AUTO_CONCURRENCY = "auto"
PROC_SELF_CGROUP = "/proc/self/cgroup"
CGROUPS = "/sys/fs/cgroup"
CPU_MOUNTS = ("cpu", "cpu,cpuacct")


class CpuBudget(NamedTuple):
    """How many processes the machine should run at once, and where the number comes from."""

    count: int  # type: ignore[assignment]  # Celery's name hides that of tuples
    available: int
    quota: float | None


def is_auto_concurrency(value: Any) -> bool:
    """Whether a setting asks for as many processes as there are processors."""
    return isinstance(value, str) and value.strip().lower() == AUTO_CONCURRENCY


def available_cpu_count() -> int:
    """The processors that this process may use; 2 if nobody can tell."""
    if hasattr(os, "process_cpu_count"):
        return os.process_cpu_count() or os.cpu_count() or 2
    if hasattr(os, "sched_getaffinity"):
        try:
            return len(os.sched_getaffinity(0)) or os.cpu_count() or 2
        except OSError:  # a kernel without it
            pass
    return os.cpu_count() or 2


def cpu_budget(use_cgroup_quota: bool = True) -> CpuBudget:
    """`available_cpu_count`, or less where a container's quota allows less; at least 1."""
    available = available_cpu_count()
    quota = cgroup_cpu_quota() if use_cgroup_quota else None
    if quota is None:
        return CpuBudget(available, available, None)
    return CpuBudget(max(1, min(available, math.ceil(quota))), available, quota)


def cgroup_cpu_quota() -> float | None:
    """The processors' worth of time that the process's cgroup, or one around it, may use."""
    own = _own_cgroups()
    second = _least(_second_version(path) for path in _ancestors(own.get("", "/")))
    if second is not None:
        return second
    within = own.get("cpu", "/")
    return _least(
        _first_version(mount, path) for mount in CPU_MOUNTS for path in _ancestors(within)
    )


def _own_cgroups() -> dict[str, str]:
    """Paths of the process's cgroups: by controller, and under "" the one of version 2."""
    found = {}
    for line in (_read_text(PROC_SELF_CGROUP) or "").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0":
            found[""] = path
        for controller in controllers.split(","):
            if controller:
                found[controller] = path
    return found


def _ancestors(path: str) -> list[str]:
    """A path and every one above it. One outside of the root is the root."""
    parts = [part for part in path.split("/") if part]
    if ".." in parts:
        parts = []
    return ["/" + "/".join(parts[:count]) for count in range(len(parts), -1, -1)]


def _read_text(path: str) -> str | None:
    try:
        with open(path, encoding="ascii") as file:  # noqa: PTH123  # patched by Celery's tests
            return file.read()
    except (OSError, UnicodeDecodeError):
        return None


def _second_version(path: str) -> float | None:
    limit, _, period = (_read_text(_join(CGROUPS, path, "cpu.max")) or "").strip().partition(" ")
    return _quota(limit, period)


def _first_version(mount: str, path: str) -> float | None:
    folder = f"{CGROUPS}/{mount}"
    limit = _read_text(_join(folder, path, "cpu.cfs_quota_us"))
    period = _read_text(_join(folder, path, "cpu.cfs_period_us"))
    return _quota(limit or "", period or "")


def _join(folder: str, path: str, name: str) -> str:
    return f"{folder}{path.rstrip('/')}/{name}"


def _quota(limit: str, period: str) -> float | None:
    try:
        numbers = int(limit), int(period)
    except ValueError:  # "max", or no file
        return None
    return numbers[0] / numbers[1] if min(numbers) > 0 else None


def _least(quotas: Iterable[float | None]) -> float | None:
    return min((quota for quota in quotas if quota is not None), default=None)


def load_average() -> tuple[float, ...]:
    """The load of the last 1, 5 and 15 minutes."""
    return tuple(math.ceil(load * 1e2) / 1e2 for load in os.getloadavg())


class df:  # noqa: N801  # Celery's name
    """How full the file system of ``path`` is, as ``df`` tells it."""

    def __init__(self, path: str | bytes | os.PathLike[str]) -> None:
        self.path = path

    @property
    def stat(self) -> os.statvfs_result:
        return os.statvfs(self.path)

    @property
    def total_blocks(self) -> float:
        """Size in KiB."""
        return self.stat.f_blocks * self.stat.f_frsize / 1024

    @property
    def available(self) -> float:
        """Free for ordinary users, in KiB."""
        return self.stat.f_bavail * self.stat.f_frsize / 1024

    @property
    def capacity(self) -> int:
        """Per cent in use."""
        used = self.stat.f_blocks - self.stat.f_bfree
        return math.ceil(100 * used / (used + self.stat.f_bavail))
