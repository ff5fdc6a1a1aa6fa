"""One pytest process: started with the recorder, read along, killed with all it has started."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.services.processes import signal_family

# The process id is on disk before pytest runs: whoever outlives the runner knows whom to end.
LAUNCH = 'echo $$ >"$0" || exit 1; exec "$@"'
MARK = "COMPAT_SESSION"
"""An environment variable that all processes of one session inherit, however far they go."""
DUMP_SECONDS = 1.0


@dataclass(frozen=True)
class Command:
    """How pytest is started for a suite."""

    program: Sequence[str]
    folder: Path
    variables: Mapping[str, str]


class Session:
    """One pytest process. `read` gives what it has said since the last call."""

    def __init__(
        self,
        command: Command,
        arguments: Sequence[str],
        *,
        work: Path,
        log: Path,
        selected: Iterable[str] | None = None,
        once: Iterable[str] = (),
    ) -> None:
        """`work` is a folder for files of its own; `log` gets what it prints.

        Tests of `once` are not run again, even where the suite asks for that.
        """
        self._mark = uuid.uuid4().hex
        self._events = work / f"{self._mark}.events"
        self._events.touch()
        self._dump = work / f"{self._mark}.dump"
        self._position = 0
        variables = {**command.variables, MARK: self._mark, "COMPAT_EVENTS": str(self._events)}
        variables["COMPAT_DUMP"] = str(self._dump)
        for what, tests in (("SELECT", selected), ("ONCE", once)):
            if tests is not None:
                names = work / f"{self._mark}.{what.lower()}"
                names.write_text(json.dumps(list(tests)))
                variables[f"COMPAT_{what}"] = str(names)
        self._pid_path = work / f"{self._mark}.pid"
        launch = ["/bin/sh", "-c", LAUNCH, str(self._pid_path), *command.program, *arguments]
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                launch,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=command.folder,
                env=dict(variables),
                start_new_session=True,
            )

    def read(self, seconds: float) -> list[dict[str, Any]]:
        """Wait so long, or less where the process ends, and give what is new."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        with self._events.open() as events:
            events.seek(self._position)
            content = events.read()
        whole = content[: content.rfind("\n") + 1]
        self._position += len(whole.encode())
        return [json.loads(line) for line in whole.splitlines()]

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    @property
    def status(self) -> int | None:
        return self._process.returncode

    def stacks(self) -> str:
        """Where every thread of the process is, if it still can say so."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGUSR1)
        deadline = time.monotonic() + DUMP_SECONDS
        while time.monotonic() < deadline and not self.has_ended:
            time.sleep(0.05)
            if self._dump.exists() and self._dump.stat().st_size:
                break
        return self._dump.read_text(errors="replace") if self._dump.exists() else ""

    def kill(self) -> None:
        """SIGKILL, to the process and whatever it has started, daemons too."""
        if not self.has_ended:
            signal_family(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._pid_path.unlink(missing_ok=True)
        for pid in marked(self._mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def marked(mark: str) -> list[int]:
    """The processes that inherited a session's mark."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if wanted in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


def describe_end(status: int | None) -> str:
    """Why a process is gone."""
    if status is None:
        return "the process does not answer"
    if status < 0:
        with contextlib.suppress(ValueError):
            return f"the process was ended by {signal.Signals(-status).name}"
    return f"the process ended with status {status}"
