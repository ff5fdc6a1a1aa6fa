"""A limit on the processor time of a container: a control group of the kernel, as in Docker.

Only root may make one, and not everywhere; a container that cannot have one runs without a limit.
Both layouts of the kernel are known: one tree for all controllers, or a tree for each.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
PREFIX = "taskmq-"


class ProcessorLimit:
    """`quota` microseconds of every `period`; there is none where it cannot be had."""

    def __init__(self, name: str, quota: int, period: int) -> None:
        self._folder: Path | None = None
        has_one_tree = (GROUPS / "cgroup.controllers").exists()
        folder = (GROUPS if has_one_tree else GROUPS / "cpu") / f"{PREFIX}{name}"
        with contextlib.suppress(OSError):
            folder.mkdir()
            self._folder = folder
            if has_one_tree:
                (folder / "cpu.max").write_text(f"{quota} {period}")
            else:
                (folder / "cpu.cfs_period_us").write_text(str(period))
                (folder / "cpu.cfs_quota_us").write_text(str(quota))
            return
        self.close()

    def command(self) -> list[str | Path]:
        """The beginning of a command whose processes are under the limit."""
        if self._folder is None:
            return []
        return ["/bin/sh", "-c", 'echo $$ >"$0" && exec "$@"', self._folder / "cgroup.procs"]

    def close(self) -> None:
        """No process is left under it."""
        if self._folder is not None:
            with contextlib.suppress(OSError):
                self._folder.rmdir()
            self._folder = None
