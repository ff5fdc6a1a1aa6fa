"""SIGKILL in the middle of transactions: nothing that was stored is lost, nothing is damaged."""

import random
import signal
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from taskmq.clock import SystemClock
from taskmq.states import JobState
from taskmq.transport import Ack, Reservation
from taskmq.transports.sqlite import SqliteTransport, from_url

CHILD = Path(__file__).parents[1] / "integration" / "sqlite_child.py"
ROUNDS, PROCESSES = 10, 2
WANTED = Reservation(queues={"q": 1}, worker="last", lease=60.0, limit=1000)


def churn_until_killed(url: str, moment: float) -> list[str]:
    """Let a process work and kill it at a random moment; the ids it was told to be stored."""
    command = [sys.executable, str(CHILD), "churn", url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout
        first = child.stdout.readline()
        timer = threading.Timer(moment, child.send_signal, (signal.SIGKILL,))
        timer.start()
        rest = child.stdout.read()
        timer.join()
    assert child.returncode == -signal.SIGKILL
    lines = [line for line in (first + rest).splitlines(keepends=True) if line.endswith("\n")]
    return [job_id for line in lines for job_id in line.split()]


def finish(store: SqliteTransport) -> None:
    """Run all that is left, the jobs of dead processes included."""
    listener = store.listen(["q"])
    settlements: list[Ack] = []
    while True:
        listener.clear()
        answer = store.exchange(settlements, WANTED)
        settlements = [Ack(delivery) for delivery in answer.deliveries]
        if not settlements:
            if answer.next_due_at is None:
                break
            listener.wait(0.05)
    listener.close()


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_killed_processes_lose_and_damage_nothing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    choose = random.Random(20)
    told: list[str] = []
    for _ in range(ROUNDS):
        moments = [choose.uniform(0.0, 0.1) for _ in range(PROCESSES)]
        with ThreadPoolExecutor() as pool:
            for ids in pool.map(partial(churn_until_killed, url), moments):
                told += ids
        with sqlite3.connect(tmp_path / "jobs.db") as database:
            assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        database.close()
    store = from_url(url, clock=SystemClock())
    finish(store)
    records = store.get(told)
    assert len(told) >= 5 * ROUNDS * PROCESSES
    assert [job_id for job_id, record in zip(told, records, strict=True) if record is None] == []
    ends = {record.state for record in records if record is not None}
    assert ends <= {JobState.SUCCEEDED, JobState.FAILED}
    dead = {record.dead_reason for record in records if record is not None} - {None}
    assert dead <= {"worker_lost"}
    store.close()
