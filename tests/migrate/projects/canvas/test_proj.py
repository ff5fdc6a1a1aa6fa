from proj.base import Counted
from proj.tasks import add, app, fail, sweep, total

from celery import chain, chord, group


def test_canvas():
    assert chain(add.s(1, 2), add.s(3))().get() == 6
    assert (add.s(1, 1) | add.s(1)).apply().get() == 3
    assert group(add.s(n, n) for n in range(3))().get() == [0, 2, 4]
    assert chord([add.s(n, 1) for n in range(3)])(total.s()).get() == 6


def test_chunks():
    assert list(add.chunks([(1, 2), (3, 4)], 1).group().apply().get()) == [[3], [7]]


def test_a_base_class_sees_every_end():
    Counted.seen.clear()
    add.delay(1, 2)
    fail.delay()
    assert Counted.seen == [("ok", "proj.tasks.add", 3), ("failed", "proj.tasks.fail", "no")]
    assert isinstance(add, Counted)


def test_schedules():
    assert sweep.delay(4).get() == 4
    assert sorted(app.conf.beat_schedule) == ["sweep", "tick"]
    assert str(app.timezone) == "Europe/Vienna"


def test_fields_of_a_schedule():
    assert app.conf.beat_schedule["tick"]["options"] == {"queue": "ticks"}


def test_signals():
    from celery import signals

    calls = []

    def before(task=None, **kwargs):
        calls.append(task.name)

    signals.task_prerun.connect(before)
    sweep.delay(4)
    signals.task_prerun.disconnect(before)
    assert calls == ["proj.tasks.sweep"]
