"""A limit on the processor time of a container: a control group of the kernel, as in Docker.

Only root may make one, and not everywhere; a container that cannot have one runs without a limit.
Both layouts of the kernel are known: one tree for all controllers, or a tree for each.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
PREFIX = "taskmq-"
CLOSE_SECONDS = 5.0
POLL_SECONDS = 0.01


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
        """No process is left under it; the kernel may need a moment to see that."""
        deadline = time.monotonic() + CLOSE_SECONDS
        while self._folder is not None and time.monotonic() < deadline:
            try:
                self._folder.rmdir()
            except FileNotFoundError:
                pass
            except OSError:
                time.sleep(POLL_SECONDS)
                continue
            self._folder = None
