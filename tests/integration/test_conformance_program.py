"""The conformance suite as people use it: from a shell, from a script, on their own transport."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from taskmq.testing.conformance.__main__ import main

THIRD_PARTY = """
from taskmq.transports.memory import MemoryTransport


def open_store(name, clock):
    return MemoryTransport(clock)


class Forgetful(MemoryTransport):
    def surrender(self, name, owner):
        return True


def open_forgetful(name, clock):
    return Forgetful(clock)
"""
SCRIPT = """
from taskmq.testing.conformance import cases, run
from third_party import open_forgetful, open_store

leader = [case for case in cases() if case.facet == "leader"]
assert run(open_store, only=leader).ok
for outcome in run(open_forgetful, only=leader).failures:
    print(outcome.case, "-", outcome.case.promise)
"""


@pytest.fixture
def third_party(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with somebody else's module in it, which can be imported."""
    (tmp_path / "third_party.py").write_text(THIRD_PARTY)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "third_party", raising=False)
    return tmp_path


def test_kept_promises_end_with_status_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["memory://", "-k", "leader"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "passed  leader/named_lease_has_one_owner" in lines
    assert lines[-1].endswith("passed, 0 FAILED, 0 skipped")


def test_what_does_not_apply_is_listed_with_the_limitation(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["memory://", "-k", "durability/order"]) == 0
    (line, _) = capsys.readouterr().out.splitlines()
    assert line.startswith("skipped durability/order_goes_on_after_a_reopen  not durable (jobs ")


def test_broken_promise_ends_with_status_1(
    third_party: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["third_party:open_forgetful", "-k", "leader"]) == 1
    output = capsys.readouterr().out
    assert "FAILED  leader/surrendered_name_is_free_at_once" in output
    assert "promise: Only the owner can surrender; then anybody can acquire." in output
    assert "expected False, got True" in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["memry://"], "did you mean 'memory'"),
        (["memory"], "neither a URL nor module:factory"),
        (["no_such_module:open"], "cannot import 'no_such_module:open'"),
        (["sqlite:///somewhere"], "put {case} where the URL names it"),
        (["memory://", "-k", "nonsense"], "no case has 'nonsense' in its name"),
    ],
)
def test_unusable_target_is_one_line_and_status_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_plain_script_checks_its_own_transport(third_party: Path) -> None:
    script = third_party / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    expected = "leader/surrendered_name_is_free_at_once - Only the owner can surrender;"
    assert done.stdout.startswith(expected)


def test_module_runs_as_a_program_with_other_processes(tmp_path: Path) -> None:
    """Each case has a file of its own, next to the one that the URL names."""
    command = [sys.executable, "-m", "taskmq.testing.conformance"]
    url = f"sqlite:///{tmp_path}/check.db"
    done = subprocess.run(
        [*command, url, "-k", "concurrency/killed"], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "passed  concurrency/killed_process_loses_no_job" in done.stdout
    assert [path.name for path in tmp_path.glob("check-concurrency-*.db")]
