"""Parts of the processes pool that need no process."""

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from taskmq import App, Config, ConfigError
from taskmq.codec import Payload
from taskmq.envelope import Envelope, Sealed, seal
from taskmq.events import JobStarted
from taskmq.pools.processes import wire
from taskmq.pools.processes.births import manner_of_death
from taskmq.pools.processes.brake import Brake
from taskmq.pools.processes.channel import Channel
from taskmq.pools.processes.charge import hard_limit_of, is_given_up_when_lost
from taskmq.pools.processes.measure import MOST, Measure
from taskmq.pools.processes.site import spec_of
from taskmq.records import Failure
from taskmq.transport import (
    Ack,
    DeadLetter,
    Defer,
    Delivery,
    Expire,
    Nack,
    Release,
    RetryLater,
    Revoke,
    Settlement,
)

DELIVERY = Delivery(
    job_id="0",
    queue="default",
    priority=0,
    envelope=b"{}",
    token=1,
    attempt=1,
    deliveries=1,
    reclaims=0,
    yields=0,
    lease_until=0.0,
    inputs={"1": Payload("json", b"2")},
)
FAILURE = Failure(type="builtins.ValueError", message="no", args=("'no'",))

app_of_this_module = App(Config())


def sealed(**fields: Any) -> Sealed:
    return seal(Envelope(v=1, id="0", task="t", queue="q", **fields), 1_000_000)


@pytest.mark.parametrize(
    "settlement",
    [
        Ack(DELIVERY),
        Ack(DELIVERY, Payload("own", b"\x00\xff")),
        RetryLater(DELIVERY, 1.5, FAILURE),
        RetryLater(DELIVERY, 1.5, FAILURE, sealed(args=msgspec.Raw(b"[1]"))),
        Nack(DELIVERY, 2.0, "why"),
        DeadLetter(DELIVERY, "error", FAILURE),
        Defer(DELIVERY, 3.0, "unknown_task", 60.0),
        Release(DELIVERY),
        Expire(DELIVERY),
        Revoke(DELIVERY),
    ],
    ids=lambda settlement: type(settlement).__name__,
)
def test_every_settlement_crosses_the_pipe(settlement: Settlement) -> None:
    report = wire.Ended(7, wire.verdict_of(settlement), 0.25)
    (frame,) = wire.Frames().feed(bytes(wire.encode([report])))
    (read,) = wire.decode_reports(frame)
    assert isinstance(read, wire.Ended)
    assert (read.seq, read.runtime) == (7, 0.25)
    assert wire.settlement_of(read.verdict, DELIVERY) == settlement


def test_deliveries_and_events_cross_the_pipe() -> None:
    (frame,) = wire.Frames().feed(bytes(wire.encode([wire.Work(1, DELIVERY)])))
    assert wire.decode_works(frame) == [wire.Work(1, DELIVERY)]
    event = JobStarted(at=1.0, job_id="0", task="t", queue="q", worker="w", attempt=1)
    (frame,) = wire.Frames().feed(bytes(wire.encode([wire.Happened([event])])))
    assert wire.decode_reports(frame) == [wire.Happened([event])]


def test_frames_come_whole_however_the_bytes_are_cut() -> None:
    draw = random.Random(1)
    sent = [[wire.Leaving("x" * draw.randrange(300))] for _ in range(200)]
    stream = b"".join(bytes(wire.encode(reports)) for reports in sent)
    frames, reader = [], wire.Frames()
    while stream:
        cut = draw.randrange(1, 700)
        frames += reader.feed(stream[:cut])
        stream = stream[cut:]
    assert [wire.decode_reports(frame) for frame in frames] == sent


def test_a_token_is_taken_once() -> None:
    channel = Channel()
    channel.send([wire.Work(number, DELIVERY) for number in range(1, 6)])
    assert channel.unstarted() == 5
    assert os.read(channel.far.tokens, 4) == (1).to_bytes(4, "little")
    assert channel.take_back() == [2, 3, 4, 5]
    assert channel.take_back() == []
    assert channel.unstarted() == 0
    channel.close()


def test_what_was_taken_back_is_not_sent_if_that_can_be_helped() -> None:
    channel = Channel()
    large = msgspec.structs.replace(DELIVERY, envelope=b"x" * 1_000_000)
    channel.send([wire.Work(1, large)])
    channel.send([wire.Work(2, large)])
    assert not channel.flush()
    assert channel.take_back() == [1, 2]
    assert len(channel._outgoing) == 1, "the frame that has begun has to be ended"
    channel.close()


def test_a_hard_limit_is_found_in_the_envelope_and_not_in_the_arguments() -> None:
    assert hard_limit_of(sealed(hard_timeout=2.5).data) == 2.5
    assert hard_limit_of(sealed().data) is None
    assert hard_limit_of(sealed(args=msgspec.Raw(b'[{"hard_timeout":1}]')).data) is None
    assert hard_limit_of(b'no envelope "hard_timeout"') is None


def test_only_a_job_that_may_run_once_is_given_up() -> None:
    assert is_given_up_when_lost(sealed(ack="on_receipt").data)
    assert not is_given_up_when_lost(sealed().data)
    assert not is_given_up_when_lost(b"no envelope")


def test_short_jobs_are_sent_ahead_and_long_ones_are_not() -> None:
    measure = Measure()
    assert measure.ahead() == 0
    measure.add(0.00001)
    assert measure.ahead() == MOST
    measure.add(10.0)
    assert measure.ahead() < MOST
    for _ in range(100):
        measure.add(10.0)
    assert measure.ahead() == 0


def test_children_that_die_at_once_are_made_more_and_more_slowly() -> None:
    brake = Brake(lambda: 100.0)
    assert [brake.failed(lived=False) for _ in range(4)] == [0.0, 0.1, 0.2, 0.4]
    assert brake.until == 100.4
    for _ in range(10):
        wait = brake.failed(lived=False)
    assert wait == 5.0
    assert brake.failed(lived=True) == 0.0
    brake.release()
    assert brake.failed(lived=False) == 0.0


def test_how_a_process_ended_in_words() -> None:
    assert manner_of_death(9) == "was killed by signal 9 (SIGKILL)"
    assert manner_of_death(3 << 8) == "ended with exit code 3"
    assert manner_of_death(-1) == "could not be started"


def test_the_app_is_found_where_a_module_has_it() -> None:
    assert spec_of(app_of_this_module).endswith(":app_of_this_module")
    with pytest.raises(ConfigError, match="assign it to a variable"):
        spec_of(App(Config()))


def test_the_app_of_a_program_that_imports_multiprocessing_is_found(tmp_path: Path) -> None:
    """There the program is listed twice: as __main__ and as __mp_main__."""
    program = tmp_path / "shop.py"
    program.write_text(
        "import multiprocessing\n"
        "from taskmq import App, Config\n"
        "from taskmq.pools.processes.site import spec_of\n"
        "app = App(Config())\n"
        "print(spec_of(app))\n"
    )
    answer = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    assert answer.stdout == "shop:app\n", answer.stderr
