"""Outlives the owner of a home, then ends the servers in it and removes it.

    python guard.py OWNER_PID FOLDER

Each server's process id is in a file ``*.pid`` somewhere in the folder, written before the server's
program runs: none can slip through, even where the owner is killed while it starts one.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sys
import time
from pathlib import Path

# Run as a program: its folder is on sys.path, the package is not.
from processes import signal_family  # type: ignore[import-not-found,unused-ignore]


def wait_for_end(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        ends = select.poll()
        ends.register(os.pidfd_open(pid), select.POLLIN)
        ends.poll()


def main() -> None:
    owner, folder = int(sys.argv[1]), Path(sys.argv[2])
    wait_for_end(owner)
    for path in folder.rglob("*.pid"):
        with contextlib.suppress(OSError, ValueError):
            signal_family(int(path.read_text()), signal.SIGKILL)
    deadline = time.monotonic() + 10
    while folder.exists() and time.monotonic() < deadline:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.01)


if __name__ == "__main__":
    main()
