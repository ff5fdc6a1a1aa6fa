"""Opening files: missing, foreign, damaged, forbidden, too new, gone."""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from taskmq.clock import SystemClock
from taskmq.envelope import Envelope, Sealed, seal
from taskmq.errors import (
    ConfigError,
    SchemaMismatch,
    StoreCorrupt,
    StoreFull,
    TaskmqError,
    TransportUnavailable,
)
from taskmq.ids import new_id
from taskmq.records import JobFilter
from taskmq.testing import FakeClock
from taskmq.transports.sqlite import SqliteTransport, from_url, schema

CHILD = Path(__file__).with_name("sqlite_child.py")
TRIALS = 20


def job(size: int = 10) -> Sealed:
    return seal(
        Envelope(v=1, id=new_id(), task="demo.task", queue="q", headers={"x": "x" * size}), 1 << 20
    )


def open_store(path: Path, options: str = "") -> SqliteTransport:
    return from_url(f"sqlite:///{path}{options}", clock=SystemClock())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def filled(path: Path) -> Path:
    """A closed store of some size."""
    store = open_store(path)
    for _ in range(4):
        store.enqueue([job(500) for _ in range(50)])
    store.close()
    assert not path.with_name("jobs.db-wal").exists()
    return path


def refusal(path: Path, kind: type[TaskmqError]) -> str:
    with pytest.raises(kind) as caught:
        open_store(path).close()
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    return str(caught.value)


# -- places --------------------------------------------------------------------------------------


def test_missing_directory_is_named(tmp_path: Path) -> None:
    assert "no directory" in refusal(tmp_path / "no" / "jobs.db", ConfigError)


def test_directory_is_no_file(tmp_path: Path) -> None:
    assert "is a directory" in refusal(tmp_path, ConfigError)


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become another user"
)
def test_what_another_user_owns_is_refused_in_one_line(
    request: pytest.FixtureRequest,
) -> None:
    script = (
        "import os, sys\n"
        "from taskmq.clock import SystemClock\n"
        "from taskmq.errors import TransportUnavailable\n"
        "from taskmq.transports.sqlite import from_url\n"
        "os.setgid(65534); os.setuid(65534)\n"
        "try: from_url(sys.argv[1], clock=SystemClock())\n"
        "except TransportUnavailable as error: print(error)\n"
    )
    # Not tmp_path: pytest keeps the folders above it to the user who runs it.
    folder = Path(tempfile.mkdtemp(prefix="taskmq-"))
    request.addfinalizer(lambda: shutil.rmtree(folder))
    folder.chmod(0o755)
    file = folder / "jobs.db"
    for says in ("is not writable for this user", "not readable and writable"):
        command = [sys.executable, "-c", script, f"sqlite:///{file}"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        assert says in answer.stdout, answer.stderr
        assert answer.stdout.count("\n") == 1
        open_store(file).close()
        file.chmod(0o600)


# -- contents ------------------------------------------------------------------------------------


def test_text_file_is_no_store(path: Path) -> None:
    path.write_text("remember the milk\n" * 100)
    assert "is not an SQLite file" in refusal(path, StoreCorrupt)
    assert path.read_text() == "remember the milk\n" * 100


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_database_of_another_application_is_left_untouched(path: Path, mode: str) -> None:
    foreign = sqlite3.connect(path)
    foreign.execute(f"PRAGMA journal_mode = {mode}")
    foreign.execute("CREATE TABLE contacts (name)")
    foreign.commit()
    foreign.close()
    before = path.read_bytes()
    assert "another application" in refusal(path, ConfigError)
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == ["jobs.db"]


def test_later_schema_is_refused_and_left_alone(filled: Path) -> None:
    with sqlite3.connect(filled) as database:
        database.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    database.close()
    assert f"schema version {schema.VERSION + 1}" in refusal(filled, SchemaMismatch)


def test_empty_file_becomes_a_store(path: Path) -> None:
    path.touch()
    store = open_store(path)
    assert store.enqueue([job()])[0].created
    store.close()


def test_file_that_was_emptied_beside_its_log_is_refused(path: Path) -> None:
    store = open_store(path)
    store.enqueue([job()])
    log = path.with_name("jobs.db-wal")
    saved = log.read_bytes()
    store.close()
    path.write_bytes(b"")
    log.write_bytes(saved)
    assert "its log jobs.db-wal is not" in refusal(path, StoreCorrupt)
    assert log.read_bytes() == saved


@pytest.mark.parametrize("size", [1, 50, 99])
def test_cut_header_is_corrupt(filled: Path, size: int) -> None:
    os.truncate(filled, size)
    assert "sqlite3" in refusal(filled, StoreCorrupt)


@pytest.mark.parametrize("left", [0.9, 0.5, 0.1])
def test_cut_tail_is_corrupt_and_says_how_to_save_the_rest(filled: Path, left: float) -> None:
    os.truncate(filled, int(filled.stat().st_size * left))
    says = refusal(filled, StoreCorrupt)
    assert f"`python -m taskmq.transports.sqlite.salvage {filled} " in says
    assert f"`sqlite3 {filled} .recover | sqlite3 " in says


def test_damage_inside_is_corrupt_when_it_is_met(filled: Path) -> None:
    content = bytearray(filled.read_bytes())
    for page in range(4096, len(content), 4096):
        content[page : page + 100] = bytes(255 - byte for byte in content[page : page + 100])
    filled.write_bytes(content)
    with pytest.raises(StoreCorrupt, match=r"\.recover"):
        _use_everything(filled)
    with pytest.raises(StoreCorrupt, match=r"\.recover"):
        _use_everything(filled)


def _use_everything(path: Path) -> None:
    store = open_store(path)
    try:
        store.find(JobFilter(limit=1000))
        store.enqueue([job()])
        store.stats()
    finally:
        store.close()


# -- in use --------------------------------------------------------------------------------------


def test_file_that_was_removed_in_use_is_an_error_and_not_a_loss(path: Path) -> None:
    clock = FakeClock()
    store = from_url(f"sqlite:///{path}", clock=clock)
    store.enqueue([job()])
    path.unlink()
    clock.advance(1.0)
    with pytest.raises(TransportUnavailable, match="removed or replaced"):
        store.enqueue([job()])
    for name in ("jobs.db-wal", "jobs.db-shm"):
        path.with_name(name).unlink(missing_ok=True)
    assert store.enqueue([job()])[0].created
    store.close()


def test_locked_file_is_unavailable_and_usable_afterwards(path: Path) -> None:
    store = open_store(path, "?busy_timeout=0.05")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(TransportUnavailable, match="locked by another process"):
        store.enqueue([job()])
    assert store.stats() == []
    other.execute("COMMIT")
    other.close()
    assert store.enqueue([job()])[0].created
    store.close()


def test_reader_does_not_wait_for_a_writer_of_its_process(path: Path) -> None:
    store = open_store(path, "?busy_timeout=0.05")
    held, done = threading.Event(), threading.Event()

    def hold(connection: object) -> None:
        held.set()
        done.wait(20)

    writer = threading.Thread(target=store._database.write, args=(hold,))
    writer.start()
    held.wait(20)
    assert store.get(["nothing"]) == [None]
    assert store.stats() == []
    done.set()
    writer.join(20)
    store.close()


def test_full_disk_stores_nothing_and_is_usable_once_there_is_space(path: Path) -> None:
    store = open_store(path)
    limit = _pages(store) + 10
    store._database._writer.run(lambda c: c.execute(f"PRAGMA max_page_count = {limit}").fetchall())
    stored = _fill_up(store)
    assert stored > 0
    assert sum(each.ready for each in store.stats()) == stored
    store._database._writer.run(lambda c: c.execute("PRAGMA max_page_count = 100000").fetchall())
    store.enqueue([job(2000)])
    assert sum(each.ready for each in store.stats()) == stored + 1
    store.close()


def _fill_up(store: SqliteTransport) -> int:
    """Enqueue until the store is full; how many jobs it took."""
    for count in range(0, 10_000, 5):
        try:
            store.enqueue([job(2000) for _ in range(5)])
        except StoreFull:
            return count
    raise AssertionError("the store was never full")


def _pages(store: SqliteTransport) -> int:
    def count(connection: sqlite3.Connection) -> int:
        return int(connection.execute("PRAGMA page_count").fetchone()[0])

    return store._database.read(count)


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0 or shutil.which("mount") is None,
    reason="only root can mount a small file system",
)
def test_really_full_file_system(tmp_path: Path) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this system does not let root mount a tmpfs")
    try:
        store = open_store(tmp_path / "jobs.db")
        stored = _fill_up(store)
        assert sum(each.ready for each in store.stats()) == stored
        store.close()
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def test_closed_transport_says_so(path: Path) -> None:
    store = open_store(path)
    store.close()
    store.close()
    with pytest.raises(TransportUnavailable, match="closed"):
        store.enqueue([job()])


def test_failed_work_leaves_no_transaction_behind(path: Path) -> None:
    store = open_store(path)

    def fail(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM jobs")
        raise KeyboardInterrupt

    store.enqueue([job()])
    with pytest.raises(KeyboardInterrupt):
        store._database.write(fail)
    assert sum(each.ready for each in store.stats()) == 1
    assert store.enqueue([job()])[0].created
    store.close()


# -- several processes ---------------------------------------------------------------------------


def test_processes_that_open_a_new_file_at_once_all_can(tmp_path: Path) -> None:
    with ExitStack() as stack:
        children = [stack.enter_context(_open_each()) for _ in range(3)]
        for trial in range(TRIALS):
            url = f"sqlite:///{tmp_path}/{trial}.db"
            for child in children:
                assert child.stdin
                child.stdin.write(f"{url}\n")
                child.stdin.flush()
            added = {child.stdout.readline() for child in children if child.stdout}
            assert "" not in added, [child.communicate()[1] for child in children]
            store = from_url(url, clock=SystemClock())
            assert sum(each.ready for each in store.stats()) == len(added) == len(children)
            store.close()


def _open_each() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(CHILD), "open-each"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
