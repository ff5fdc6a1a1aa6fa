"""What a producer sees of a queue that is full."""

from __future__ import annotations

import itertools
import threading
from typing import Literal

import pytest

from taskmq import App, Config, ConfigError, JobState, QueueConfig, TransportError
from taskmq.backpressure import enqueue_or_wait
from taskmq.errors import QueueFull
from taskmq.plugins import open_transport
from taskmq.testing.wrapper import TransportWrapper
from taskmq.transport import Listener, Reservation

WANTED = Reservation(queues={"q": 1}, worker="w", lease=60.0, limit=1)


def an_app(
    overflow: Literal["reject", "block", "drop_oldest"],
    *,
    eager: bool = False,
    timeout: float = 30.0,
) -> App:
    queue = QueueConfig(capacity=2, overflow=overflow, block_timeout=timeout)
    app = App(Config(default_queue="q", queues={"q": queue}, eager=eager))
    app.task(name="work")(work)
    return app


def work(n: int) -> int:
    return n


class OnListen(TransportWrapper):
    """A store in which a worker takes a job once somebody waits for that."""

    def listen(self, *args: object, **kwargs: object) -> Listener:
        listener = self.inner.listen(*args, **kwargs)  # type: ignore[arg-type]  # passed on
        threading.Thread(target=self.inner.reserve, args=(WANTED,)).start()
        return listener


def test_a_full_queue_refuses_by_name_and_depth() -> None:
    app = an_app("reject")
    app.tasks["work"].submit_many([(1,), (2,)])
    with pytest.raises(
        QueueFull, match="queue 'q' holds 2 jobs that wait, of 2 that may"
    ) as caught:
        app.tasks["work"].delay(3)
    assert isinstance(caught.value, TransportError)


def test_a_producer_waits_until_a_worker_made_room() -> None:
    app = an_app("block")
    app.tasks["work"].submit_many([(1,), (2,)])
    app = App(app.config, transport=OnListen(app.transport))
    task = app.task(name="work")(work)
    assert task.delay(3).state is JobState.QUEUED


def test_a_producer_waits_no_longer_than_it_should() -> None:
    app = an_app("block")
    app.tasks["work"].submit_many([(1,), (2,)])
    sealed = [app.seal(app.tasks["work"].call(3), 0.0)]
    ticks = itertools.count(0.0, 20.0)
    with pytest.raises(QueueFull):
        enqueue_or_wait(
            app.transport, sealed, app.config.queues, lambda: next(ticks), publish_timeout=5
        )
    assert next(ticks) == 60.0


def test_a_batch_that_would_never_fit_is_refused_at_once() -> None:
    app = an_app("block", timeout=1e9)
    with pytest.raises(QueueFull, match="no room for 3 more"):
        app.tasks["work"].submit_many([(1,), (2,), (3,)])


def test_the_oldest_makes_room_as_a_dead_letter() -> None:
    app = an_app("drop_oldest")
    first, *_ = app.tasks["work"].submit_many([(1,), (2,)])
    app.tasks["work"].delay(3)
    (letter,) = app.dead_letters.list()
    assert (letter.id, letter.dead_reason) == (first.id, "queue_full")


def test_eager_mode_never_waits() -> None:
    app = an_app("block", eager=True, timeout=1e9)

    @app.task
    def flood() -> str:
        app.tasks["work"].submit_many([(1,), (2,)])
        with pytest.raises(QueueFull):
            app.tasks["work"].delay(3)
        return "full"

    assert flood.delay().get() == "full"


def test_every_transport_that_the_engine_has_keeps_to_it() -> None:
    assert open_transport("memory://", clock=App(Config()).clock).capabilities.capacity


@pytest.mark.parametrize(
    "field",
    [{"capacity": 0}, {"overflow": "drop"}, {"block_timeout": -1}, {"max_running": 0}],
)
def test_a_wrong_declaration_is_refused_by_name(field: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=rf"^QueueConfig\.{next(iter(field))}"):
        QueueConfig(**field)  # type: ignore[arg-type]  # that is the point
