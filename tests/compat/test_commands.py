"""The command line: help that helps, and one line for every mistake."""

from __future__ import annotations

import io
import os
import signal
import tarfile
from pathlib import Path

import pytest
from compat import catalog, commands, fetch, work
from compat.catalog import read_catalog
from compat.fetch import copy_checkout, sdist, unpack
from compat.problems import Problem

COMMANDS = ["suites", "fetch", "env", "run", "expect", "report", "all", "ci"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        commands.main([command, "--help"])
    assert ended.value.code == 0
    assert "--celery VERSION" in capsys.readouterr().out


def test_sigterm_interrupts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(commands, "read_catalog", lambda: os.kill(os.getpid(), signal.SIGTERM))
    assert commands.main(["suites"]) == commands.INTERRUPTED
    assert "the same command goes on from here" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) is before


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        commands.main(["--help"])
    said = capsys.readouterr().out
    assert [each for each in COMMANDS if f"\n    {each} " not in said] == []


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["run", "untit"], "no suite is called untit (did you mean unit?)"),
        (["run", "unit", "--celery", "4.0"], "Celery 4.0 is not in suites.toml: 5.7.0"),
        (["run", "unit", "--broker", "redis"], "unit takes no --broker and no --backend"),
        (["run", "unit", "-n", "0"], "-n takes a number from 1"),
        (["run", "integration", "-n", "2"], "the tests of integration share services: -n 1 only"),
        (["run", "flower", "--checkout", "/nowhere"], "/nowhere has no docs"),
        (["expect", "nothing"], "no suite is called nothing"),
        (["all", "flowr"], "no suite is called flowr (did you mean flower?)"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: list[str],
    complaint: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(work, "RUNS", tmp_path)
    monkeypatch.setattr(work, "ensure", lambda environment, catalog: False)
    assert commands.main(arguments) == commands.WRONG_CALL
    said = capsys.readouterr().err
    assert said.startswith(f"compat: {complaint}")
    assert said.count("\n") == 1


def test_every_suite_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.main(["suites"]) == commands.OK
    said = capsys.readouterr().out
    assert [name for name in read_catalog().suites if name not in said] == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[suite.unit", "suites.toml: "),
        ("[environment]\ncelery = []\n", "suites.toml: 'extras'"),
        (
            "[environment]\ncelery = []\nextras = []\npackages = []\n[suite.unit]\nabut = 'x'\n",
            "suite unit has a key abut that is not known",
        ),
    ],
)
def test_a_wrong_catalog_is_one_line(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "suites.toml"
    path.write_text(text)
    with pytest.raises(Problem, match=complaint):
        catalog.read_catalog(path)


# ------------------------------------------------------------------------------------- sources


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "celery-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as content:
        for name in ("celery-1.0/t/unit/test_a.py", "celery-1.0/celery/app.py", "celery-1.0/tx.py"):
            content.addfile(tarfile.TarInfo(name), io.BytesIO())
    return path


def test_what_is_kept_is_taken_and_nothing_else(archive: Path, tmp_path: Path) -> None:
    unpack(archive, ["t"], tmp_path / "out")
    found = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert found == [tmp_path / "out" / "t" / "unit" / "test_a.py"]


def test_what_an_sdist_lacks_is_told(archive: Path, tmp_path: Path) -> None:
    with pytest.raises(Problem, match="has no docs, u"):
        unpack(archive, ["t", "u", "docs"], tmp_path / "out")


def test_an_sdist_that_is_there_is_not_fetched(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "SDISTS", archive.parent)
    assert sdist("Celery", "1.0") == archive


def test_a_checkout_gives_the_same(tmp_path: Path) -> None:
    (tmp_path / "source" / "t").mkdir(parents=True)
    (tmp_path / "source" / "t" / "test_a.py").touch()
    (tmp_path / "source" / "setup.cfg").touch()
    copy_checkout(tmp_path / "source", ["t", "setup.cfg"], tmp_path / "out")
    assert (tmp_path / "out" / "t" / "test_a.py").exists()
    assert (tmp_path / "out" / "setup.cfg").exists()
