"""The commands: what they print, write and exit with."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from taskmq_migrate.cli import main as program

OLD = "from celery.task import task\n\n\n@task\ndef add(x, y):\n    return x + y\n"
NEW = "from celery import shared_task\n\n\n@shared_task\ndef add(x, y):\n    return x + y\n"
MARKED = "celery @ https://example.org/celery.tar.gz\n"


class Call:
    """Runs the command line in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.output = b""
        self.errors = ""

    def __call__(self, *arguments: str, stdin: bytes = b"") -> int:
        before = Path.cwd()
        os.chdir(self.folder)
        runner = CliRunner()
        try:
            with runner.isolation(input=stdin) as (out, err, _):
                try:
                    program.main([*arguments])
                except SystemExit as end:
                    code = int(end.code or 0)
                self.output = out.getvalue()
                self.errors = err.getvalue().decode()
        finally:
            os.chdir(before)
        return code

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        return path


@pytest.fixture
def call(tmp_path: Path) -> Call:
    return Call(tmp_path)


@pytest.fixture
def git(call: Call) -> Callable[..., bytes]:
    """A git checkout in the folder; gives what a git command prints."""

    def run(*arguments: str, stdin: bytes = b"") -> bytes:
        names = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        command = ["git", *names, *arguments]
        return subprocess.run(
            command, cwd=call.folder, input=stdin, check=True, capture_output=True
        ).stdout

    run("init", "-q")
    return run


def test_check_says_what_would_change_and_writes_nothing(call: Call) -> None:
    path = call.write("tasks.py", OLD)
    assert call("check", "--to", "shim") == 1
    assert b"1 to change" in call.output
    assert path.read_text() == OLD


def test_check_of_a_clean_tree_is_done(call: Call) -> None:
    call.write("tasks.py", NEW)
    assert call("check", "--to", "shim") == 0


def test_a_target_is_asked_for(call: Call) -> None:
    assert call("check") == 4
    assert "--to shim" in call.errors


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("check", "--to", "shim", "--only", "TMQO20"), "did you mean TMQ020?"),
        (("check", "--to", "shim", "nowhere"), "nowhere does not exist"),
        (("check", "--to", "sham"), "'sham'"),
        (("undo",), "nothing to undo"),
        (("check", "--to", "shim", "--jobs", "0"), "--jobs"),
    ],
)
def test_what_is_refused_is_one_line(call: Call, arguments: tuple[str, ...], said: str) -> None:
    assert call(*arguments) == 4
    assert said in call.errors
    assert call.errors.count("\n") == 1


def test_apply_is_the_diff_that_git_applies(call: Call, git: Callable[..., bytes]) -> None:
    files = {
        "tasks.py": OLD,
        "crlf.py": OLD.replace("\n", "\r\n"),
        "no end.py": OLD.rstrip("\n"),
        "pkg/übung.py": OLD.replace("x + y", "'ü'"),
        "requirements.txt": "celery==5.3",
    }
    for name, text in files.items():
        call.write(name, text)
    git("add", ".")
    git("commit", "-qm", "before")
    assert call("diff", "--to", "shim") == 1
    git("apply", "-", stdin=call.output)
    patched = {name: (call.folder / name).read_bytes() for name in files}
    git("checkout", "-q", ".")
    assert call("apply", "--to", "shim") == 0
    assert {name: (call.folder / name).read_bytes() for name in files} == patched
    assert patched["tasks.py"] == NEW.encode()
    assert call("check", "--to", "shim") == 0


def test_apply_refuses_a_dirty_tree(call: Call, git: Callable[..., bytes]) -> None:
    path = call.write("tasks.py", OLD)
    git("add", ".")
    git("commit", "-qm", "before")
    call.write("other.py", "")
    assert call("apply", "--to", "shim") == 4
    assert "--allow-dirty" in call.errors
    assert path.read_text() == OLD
    assert call("apply", "--to", "shim", "--allow-dirty") == 0
    assert path.read_text() == NEW


def test_what_git_ignores_is_left_alone(call: Call, git: Callable[..., bytes]) -> None:
    call.write(".gitignore", "build/\n")
    path = call.write("build/tasks.py", OLD)
    assert call("apply", "--to", "shim", "--allow-dirty") == 0
    assert path.read_text() == OLD


def test_apply_keeps_mode_bits_and_leaves_no_temporary_file(call: Call) -> None:
    path = call.write("tasks.py", OLD)
    path.chmod(0o751)
    assert call("apply", "--to", "shim") == 0
    assert path.stat().st_mode & 0o777 == 0o751
    assert sorted(each.name for each in call.folder.iterdir()) == [".taskmq-migrate", "tasks.py"]


def test_undo_takes_back_the_last_apply(call: Call) -> None:
    path = call.write("tasks.py", OLD)
    assert call("apply", "--to", "shim") == 0
    assert call("undo") == 0
    assert path.read_text() == OLD
    assert call("undo") == 4


def test_undo_never_overwrites_later_work(call: Call) -> None:
    path = call.write("tasks.py", OLD)
    assert call("apply", "--to", "shim") == 0
    path.write_text(NEW + "# mine\n")
    assert call("undo") == 4
    assert path.read_text() == NEW + "# mine\n"


def test_failures_are_reported_while_others_go_on(call: Call) -> None:
    call.write("broken.py", "from celery.task import (\n")
    (call.folder / "latin.py").write_bytes(b"from celery.task import task  # \xe4\n")
    good = call.write("tasks.py", OLD)
    assert call("apply", "--to", "shim") == 2
    assert b"broken.py: failed line" in call.output
    assert b"latin.py: failed is not utf-8" in call.output
    assert good.read_text() == NEW


def test_strict_is_about_markers_that_remain(call: Call) -> None:
    path = call.write("requirements.txt", MARKED)
    assert call("apply", "--to", "shim") == 0
    once = path.read_text()
    assert once.count("# TODO(taskmq-migrate TMQ001): ") == 1
    assert call("apply", "--to", "shim", "--strict") == 3
    assert path.read_text() == once
    assert call("apply", "--clean-markers") == 0
    assert path.read_text() == MARKED


def test_the_reports_of_programs(call: Call) -> None:
    call.write("tasks.py", OLD)
    call.write("requirements.txt", MARKED)
    call.write("broken.py", "from celery.task import (\n")
    assert call("check", "--to", "shim", "--json", "--html", "report.html") == 2
    report = json.loads(call.output)
    numbers = report["totals"]
    assert numbers["files_seen"] == 3
    kinds = ("changed", "failed", "untouched")
    assert numbers["files_seen"] == sum(numbers[f"files_{each}"] for each in kinds)
    states = ("converted", "marked", "unsafe", "reported")
    assert numbers["sites_found"] == sum(numbers[f"sites_{each}"] for each in states)
    assert numbers["sites_found"] == len(report["findings"])
    for state in states:
        assert numbers[f"sites_{state}"] == sum(each[state] for each in report["files"])
    page = (call.folder / "report.html").read_text()
    assert "@<mark>shared_</mark>task" in page
    assert call("check", "--to", "shim", "--sarif") == 2
    (run,) = json.loads(call.output)["runs"]
    assert {each["ruleId"] for each in run["results"]} == {"TMQ001", "TMQ020"}
    assert run["invocations"][0]["executionSuccessful"] is False


def test_one_file_through_stdin(call: Call) -> None:
    assert call("apply", "--to", "shim", "-", stdin=OLD.encode()) == 0
    assert call.output == NEW.encode()
    options = ("--stdin-filename", "requirements.txt")
    assert call("diff", "--to", "shim", *options, "-", stdin=b"celery\n") == 1
    assert b"+taskmq-celery" in call.output


def test_settings_come_from_pyproject(call: Call) -> None:
    call.write("tasks.py", OLD)
    call.write("pyproject.toml", '[tool.taskmq-migrate]\nto = "shim"\nexclude = ["tasks.py"]\n')
    assert call("check") == 0
    call.write("pyproject.toml", '[tool.taskmq-migrate]\nto = "shim"\nskip = ["TMQ020"]\n')
    assert call("check") == 0
    call.write("pyproject.toml", '[tool.taskmq-migrate]\nto = "shim"\n')
    assert call("check") == 1
    call.write("pyproject.toml", "[tool.taskmq-migrate]\nskipp = []\n")
    assert call("check") == 4
    assert "did you mean skip?" in call.errors


def test_rules_and_explain(call: Call) -> None:
    assert call("rules") == 0
    assert b"TMQ020" in call.output
    assert call("explain", "tmq020") == 0
    assert b"from celery.task import task" in call.output
    assert b"from celery import shared_task" in call.output


def test_the_result_does_not_depend_on_jobs(call: Call) -> None:
    for number in range(40):
        call.write(f"tasks_{number}.py", OLD)
    assert call("diff", "--to", "shim", "--jobs", "1") == 1
    alone = call.output
    assert call("diff", "--to", "shim", "--jobs", "2") == 1
    assert call.output == alone
