"""Apps whose broker is kombu's, in memory, and those who listen to their events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from kombu.messaging import Consumer
from tests.waiting import PATIENCE

from celery import Celery, _state


@pytest.fixture(autouse=True)
def apart() -> Iterator[None]:
    """The current app of one test is not that of the next."""
    yield
    _state._set_current_app(None)
    _state.set_default_app(None)


@pytest.fixture
def make_app() -> Iterator[Callable[..., Any]]:
    """Makes apps; keywords are settings."""
    made: list[Celery] = []

    def make(broker: str = "memory://", **settings: Any) -> Celery:
        app = Celery("told", broker=broker, backend="rpc://", set_as_current=False, **settings)
        made.append(app)
        return app

    yield make
    for app in made:
        app.close()


@pytest.fixture
def app(make_app: Callable[..., Any]) -> Any:
    return make_app()


class Listener:
    """Receives events, from the moment it is made."""

    def __init__(self, app: Any) -> None:
        self.events: list[dict[str, Any]] = []
        self._connection = app.connection_for_read()
        receiver = app.events.Receiver(
            self._connection.channel(), handlers={"*": self.events.append}
        )
        (consumer,) = receiver.get_consumers(
            partial(Consumer, self._connection.channel()), receiver.channel
        )
        consumer.consume()

    def until(self, type: str, count: int = 1) -> list[dict[str, Any]]:
        """The events of that type, when there are so many."""
        while len(found := [each for each in self.events if each["type"] == type]) < count:
            self._connection.drain_events(timeout=PATIENCE)
        return found

    def close(self) -> None:
        self._connection.release()


@pytest.fixture
def listen() -> Iterator[Callable[[Any], Listener]]:
    """Makes listeners to the events that the broker of an app carries."""
    made: list[Listener] = []

    def listening(app: Any) -> Listener:
        made.append(Listener(app))
        return made[-1]

    yield listening
    for listener in made:
        listener.close()
