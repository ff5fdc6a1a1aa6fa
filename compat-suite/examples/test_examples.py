"""Runs the examples of Celery's source distribution as their README files and docstrings say.

Nothing of them is changed: broker and result backend are set from outside, by the variables of the
environment that go before what a program says. Each example is a worker in a process of its own,
and a client in another.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent / "examples"
PATIENCE = 60.0
READY = r"ready\."


class Program:
    """A process of an example, whose output is read as it comes."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.output = ""
        self._changed = threading.Condition()
        self._process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=folder,
            env=variables(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._changed:
                self.output += line
                self._changed.notify_all()
        with self._changed:
            self.output += "\0"  # that was all
            self._changed.notify_all()

    def wait_for(self, *patterns: str) -> None:
        """Until it has said something like each of them."""

        def missing() -> list[str]:
            return [each for each in patterns if not re.search(each, self.output)]

        with self._changed:
            self._changed.wait_for(lambda: self.output.endswith("\0") or not missing(), PATIENCE)
        last = self.output.strip("\0\n").rpartition("\n")[2]
        assert not missing(), f"never said {missing()}, but at last: {last}\n{self.output}"

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._reader.join(20)


def variables() -> dict[str, str]:
    """The environment of an example: where its broker and its results are."""
    return {
        **os.environ,
        "CELERY_BROKER_URL": os.environ["TEST_BROKER"],
        "CELERY_RESULT_BACKEND": os.environ["TEST_BACKEND"],
        "PYTHONUNBUFFERED": "1",
    }


def ask(folder: Path, *lines: str) -> str:
    """What a client's program prints."""
    return python(folder, "-c", "\n".join(lines))


def python(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=variables(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, f"{done.stderr.strip().rpartition(chr(10))[2]}\n{done.stderr}"
    return done.stdout.strip()


Start = Callable[..., Program]


@pytest.fixture
def start() -> Iterator[Start]:
    started = []

    def starting(example: str, *arguments: str, ready: str = READY) -> Program:
        program = Program(EXAMPLES / example, *arguments)
        started.append(program)
        program.wait_for(ready)
        return program

    yield starting
    for program in started:
        program.stop()


def worker(start: Start, example: str, app: str, *options: str) -> Program:
    return start(example, "-m", "celery", "-A", app, "worker", "-l", "INFO", "-c", "2", *options)


def test_tutorial(start: Start) -> None:
    worker(start, "tutorial", "tasks")
    said = ask(EXAMPLES / "tutorial", "from tasks import add", "print(add.delay(4, 4).get(30))")
    assert said == "8"


def test_app_by_command(start: Start) -> None:
    worker(start, "app", "myapp:app")
    said = ask(EXAMPLES / "app", "from myapp import add", "print(add.delay(16, 16).get(40))")
    assert said == "32"


def test_app_by_its_own_command_line(start: Start) -> None:
    start("app", "myapp.py", "worker", "-l", "INFO")
    said = ask(EXAMPLES / "app", "from myapp import add", "print(add.delay(16, 16).get(40))")
    assert said == "32"


def test_next_steps(start: Start) -> None:
    worker(start, "next-steps", "proj")
    said = ask(
        EXAMPLES / "next-steps",
        "from celery import chain, chord, group",
        "from proj.tasks import add, mul, xsum",
        "print(add.delay(2, 2).get(30))",
        "print(group(add.s(i, i) for i in range(10))().get(30))",
        "print(chain(add.s(4, 4) | mul.s(8))().get(30))",
        "print(chord((add.s(i, i) for i in range(10)), xsum.s())().get(30))",
    )
    assert said.splitlines() == ["4", str([i + i for i in range(10)]), "64", "90"]


def test_periodic_tasks(start: Start) -> None:
    running = worker(start, "periodic-tasks", "myapp")
    beat = ["-m", "celery", "-A", "myapp", "beat", "-l", "INFO"]
    start("periodic-tasks", *beat, ready="beat: Starting")
    running.wait_for("hello")


def test_pydantic(start: Start) -> None:
    worker(start, "pydantic", "tasks")
    said = ask(EXAMPLES / "pydantic", "from tasks import x", "print(x.delay({'value': 1}).get(30))")
    assert said == "{'value': 'example: 1'}"


def test_security(start: Start) -> None:
    # The certificate that comes with it has expired: make one, as it says how to.
    subject = ["-nodes", "-subj", "/CN=worker", "-days", "2"]
    files = ["-keyout", "ssl/worker.key", "-out", "ssl/worker.pem"]
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", *subject, *files]
    subprocess.run(make, cwd=EXAMPLES / "security", check=True, capture_output=True)
    worker(start, "security", "mysecureapp")
    said = ask(EXAMPLES / "security", "from mysecureapp import boom", "print(boom.delay().get(30))")
    assert said == "I am a signed message"


@pytest.mark.parametrize("number", [1, 2, 3])
def test_stamping(start: Start, number: int) -> None:
    running = worker(start, "stamping", "myapp")
    ask(EXAMPLES / "stamping", "import examples", f"examples.run_example{number}()")
    last = {1: "link_foo2", 2: "chain_link", 3: "sig1_link"}[number]
    named = rf"Found tasks\.identity_task[\[(]'{last}',?[\])]\.stamps"
    running.wait_for("Found stamps", "mtask_id", named)


def test_stamping_on_replace(start: Start) -> None:
    running = worker(start, "stamping", "myapp")
    ask(EXAMPLES / "stamping", "import examples", "examples.run_example_with_replace()")
    running.wait_for(
        "StampOnReplace: ", "MonitoredTask: ", r"identity_task[\[(]'sig1',?[\])]\.stamps"
    )


def test_stamping_run_then_revoke(start: Start) -> None:
    running = worker(start, "stamping", "myapp")
    ask(EXAMPLES / "stamping", "import revoke_example", "revoke_example.run_then_revoke()")
    running.wait_for("Waiting for 180 seconds")
    said = ask(
        EXAMPLES / "stamping",
        "import time",
        "from config import app",
        "deadline = time.monotonic() + 30",
        "while any(app.control.inspect().active().values()) and time.monotonic() < deadline:",
        "    time.sleep(0.2)",
        "print(app.control.inspect().active())",
    )
    assert said.endswith("[]}")


def test_stamping_revoke_then_run(start: Start) -> None:
    running = worker(start, "stamping", "myapp")
    ask(EXAMPLES / "stamping", "import revoke_example", "revoke_example.revoke_then_run()")
    running.wait_for("Discarding revoked task: tasks.waitfor")
    assert "Waiting for 180 seconds" not in running.output


def test_django(start: Start) -> None:
    folder = EXAMPLES / "django"
    python(folder, "manage.py", "migrate", "--verbosity", "0")
    worker(start, "django", "proj")
    said = python(
        folder,
        "manage.py",
        "shell",
        "--verbosity",
        "0",
        "-c",
        "from demoapp.models import Widget\n"
        "from demoapp.tasks import add, count_widgets, rename_widget, xsum\n"
        "widget = Widget.objects.create(name='old')\n"
        "rename_widget.delay(widget.id, 'new').get(30)\n"
        "widget.refresh_from_db()\n"
        "print(add.delay(2, 3).get(30), xsum.delay([1, 2]).get(30), widget.name)\n"
        "print(count_widgets.delay().get(30) == Widget.objects.count())",
    )
    assert said.splitlines() == ["5 3 new", "True"]


def test_django_retries(start: Start) -> None:
    folder = EXAMPLES / "django"
    running = worker(start, "django", "proj")
    code = "from demoapp.tasks import error_backoff_test as e; e.delay()"
    python(folder, "manage.py", "shell", "--verbosity", "0", "-c", code)
    running.wait_for("Retry in 5s", "Retry in 10s")


def test_resultgraph() -> None:
    said = ask(EXAMPLES / "resultgraph", "import tasks", "print(tasks.A.name)")
    assert said == "tasks.A"


def test_gevent(start: Start) -> None:
    worker(start, "gevent", "tasks", "--pool=gevent")


def test_eventlet(start: Start) -> None:
    pytest.importorskip("eventlet", reason="eventlet is not for this version of Python")
    worker(start, "eventlet", "tasks", "--pool=eventlet")


def test_celery_http_gateway() -> None:
    python(EXAMPLES / "celery_http_gateway", "manage.py", "validate")


def test_quorum_queues() -> None:
    pytest.skip("its connection to RabbitMQ on port 5672 is written into it")
