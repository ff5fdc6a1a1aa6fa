"""How many slots the load wants: quickly more, slowly less."""

import pytest

from taskmq import App, Config, ConfigError
from taskmq.worker import Worker
from taskmq.worker.autoscale import PATIENCE, Autoscale


def test_grows_by_half_while_every_slot_is_taken() -> None:
    scale, slots, seen = Autoscale(1, 8), 1, []
    for second in range(6):
        slots = scale.decide(slots, busy=slots, now=second)
        seen.append(slots)
    assert seen == [2, 3, 4, 6, 8, 8]


def test_shrinks_to_what_was_used_after_a_while() -> None:
    scale = Autoscale(2, 8)
    assert scale.decide(8, busy=3, now=0) == 8
    assert scale.decide(8, busy=5, now=PATIENCE / 2) == 8
    assert scale.decide(8, busy=1, now=PATIENCE) == 5
    assert scale.decide(5, busy=0, now=PATIENCE + 1) == 5
    assert scale.decide(5, busy=0, now=2 * PATIENCE + 1) == 2
    assert scale.decide(2, busy=0, now=3 * PATIENCE + 2) == 2


def test_a_busy_moment_ends_the_lull() -> None:
    scale = Autoscale(1, 4)
    scale.decide(4, busy=0, now=0)
    assert scale.decide(4, busy=4, now=PATIENCE - 1) == 4
    assert scale.decide(4, busy=0, now=PATIENCE + 1) == 4


def test_a_pool_of_threads_cannot_be_scaled() -> None:
    app = App(Config(autoscale=(1, 2)))
    with pytest.raises(ConfigError, match="autoscale wants the processes pool"):
        Worker(app).run_until_idle()


def test_a_worker_that_does_not_run_has_no_slots_to_change() -> None:
    with pytest.raises(RuntimeError, match="does not run"):
        Worker(App(Config())).grow()
