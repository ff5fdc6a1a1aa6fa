"""Looking at the cluster from time to time: ``celery events --camera``.

>>> class Counter(Polaroid):
...     clear_after = True
...     def on_shutter(self, state):
...         print(f"{state.event_count} events, {state.task_count} tasks")
"""

from __future__ import annotations

from typing import Any, ClassVar

from kombu.utils.limits import TokenBucket

from celery import platforms
from celery.app import app_or_default
from celery.utils.dispatch import Signal
from celery.utils.imports import instantiate
from celery.utils.log import get_logger
from celery.utils.time import rate
from celery.utils.timer2 import Timer

__all__ = ("Polaroid", "evcam")

logger = get_logger("celery.evcam")


class Polaroid:
    """Calls `on_shutter` with the state every ``freq`` seconds, but no more often than ``maxrate``
    (``"10/m"``), and `on_cleanup` every ``cleanup_freq`` seconds. Used as a context manager.

    With ``clear_after`` what was seen is forgotten after each picture.
    """

    app: Any
    timer: Any = None
    clear_after: ClassVar[bool] = False
    shutter_signal = Signal(name="shutter_signal", providing_args={"state"})
    cleanup_signal = Signal(name="cleanup_signal")
    _tref: Any = None
    _ctref: Any = None

    def __init__(
        self,
        state: Any,
        freq: float = 1.0,
        maxrate: Any = None,
        cleanup_freq: float = 3600.0,
        timer: Any = None,
        app: Any = None,
    ) -> None:
        self.state, self.app = state, app_or_default(app)
        self.timer = timer or self.timer or Timer()
        self.freq, self.cleanup_freq = freq, cleanup_freq
        self.maxrate = maxrate and TokenBucket(rate(maxrate))
        self.logger = logger

    def install(self) -> None:
        """Start to look."""
        self._tref = self.timer.call_repeatedly(self.freq, self.capture)
        self._ctref = self.timer.call_repeatedly(self.cleanup_freq, self.cleanup)

    def on_shutter(self, state: Any) -> None:
        """A picture; for subclasses."""

    def on_cleanup(self) -> None:
        """Time to forget what is old; for subclasses."""

    def cleanup(self) -> None:
        """Tell receivers and subclass that it is time to clean up."""
        logger.debug("Cleanup: Running...")
        self.cleanup_signal.send(sender=self.state)
        self.on_cleanup()

    def shutter(self) -> None:
        """Take a picture, if that is not too often."""
        if self.maxrate is None or self.maxrate.can_consume():
            logger.debug("Shutter: %s", self.state)
            self.shutter_signal.send(sender=self.state)
            self.on_shutter(self.state)

    def capture(self) -> None:
        """Take a picture while the state stands still."""
        self.state.freeze_while(self.shutter, clear_after=self.clear_after)

    def cancel(self) -> None:
        """Look no more: take a last picture."""
        if self._tref:
            self._tref()
            self._tref.cancel()
        if self._ctref:
            self._ctref.cancel()

    def __enter__(self) -> Polaroid:
        self.install()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.cancel()


def evcam(
    camera: Any,
    freq: float = 1.0,
    maxrate: Any = None,
    loglevel: Any = 0,
    logfile: Any = None,
    pidfile: str | None = None,
    timer: Any = None,
    app: Any = None,
    **kwargs: Any,
) -> None:
    """Run a camera, a `Polaroid` or the name of one, until it is interrupted."""
    app = app_or_default(app)
    if pidfile:
        platforms.create_pidlock(pidfile)
    app.log.setup_logging_subsystem(loglevel, logfile)
    every = f"(every {freq} secs.)"
    print(f"-> evcam: Taking snapshots with {camera} {every}", flush=True)  # noqa: T201  # a command
    state = app.events.State()
    taking = instantiate(camera, state, app=app, freq=freq, maxrate=maxrate, timer=timer, **kwargs)
    with taking, app.connection_for_read() as connection:
        try:
            receiver = app.events.Receiver(connection, handlers={"*": state.event})
            receiver.capture(limit=None)
        except KeyboardInterrupt:
            raise SystemExit from None
