"""The temporary folder of one server or several, and what ends them with their owner."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType

# Not $TMPDIR: the name of a unix socket holds 107 characters at most.
TEMPORARY = Path("/tmp")  # noqa: S108  # the names in it cannot be guessed
GUARD = Path(__file__).parent / "guard.py"


class Home:
    """A temporary folder. When its owner's process ends, its servers are killed and it is removed.

    `owner` is a process id, by default this process; `path` is made if it is given.
    """

    def __init__(self, *, owner: int | None = None, path: Path | None = None) -> None:
        if path is None:
            # Short, because the name of a unix socket holds 107 characters at most.
            path = Path(tempfile.mkdtemp(prefix="taskmq-", dir="/tmp"))  # unguessable
        path.mkdir(mode=0o755, exist_ok=True)
        # A server that changes its user passes through.
        path.chmod(0o755)
        self.path = path
        command = [sys.executable, "-S", "-E", str(GUARD), str(owner or os.getpid()), str(path)]
        self._guard = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )

    def close(self) -> None:
        """Remove the folder. Its servers have been ended before."""
        self._guard.kill()
        self._guard.wait()
        shutil.rmtree(self.path, ignore_errors=True)

    def disown(self) -> None:
        """Leave it to the owner's end alone. Python would warn of a child that still runs."""
        self._guard.returncode = 0

    def __enter__(self) -> Home:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
