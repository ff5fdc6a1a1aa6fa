"""The worker's end of remote control: takes commands from the broker and answers them."""

from __future__ import annotations

import threading
import time
from typing import Any

from celery.exceptions import WorkerShutdown, WorkerTerminate
from celery.platforms import EX_OK
from celery.utils.collections import AttributeDict
from celery.utils.log import get_logger

from . import state
from .control import Panel
from .reconnecting import Tries, one_line

__all__ = ("Pidbox", "gPidbox")

logger = get_logger(__name__)
connection_logger = get_logger("celery.worker.consumer.connection")

LATER = {"interval_start": 2, "interval_step": 2, "interval_max": 32}
"""Seconds between two tries to connect: at first, more each time, at most."""

PATIENCE = 2.0
"""Longest time in seconds that a worker's start waits for its mailbox."""
PAUSE = 0.5
"""Longest time in seconds until the thread notices that it is to end."""
LONGEST_PAUSE = 10.0


class Pidbox:
    """Serves one worker, in a thread of its own: it answers while tasks run, in any pool.

    A broker that goes away is waited for, and told of in the log as Celery's users know it: jobs
    come by the engine's own connection, which does the same without a word. What a command raises
    is its answer.
    """

    _errors: tuple[type[BaseException], ...] = (OSError,)
    """What a lost connection raises."""

    def __init__(self, c: Any) -> None:
        self.consumer = c
        self.node: Any = None
        """Kombu's, while it listens."""
        self.connection: Any = None
        self._thread: threading.Thread | None = None
        self._listening = threading.Event()
        # No event: it is set by signal handlers, which may interrupt one another.
        self._stopped = self._anew = False
        self._was_connected = False

    def start(self, c: Any) -> None:
        """Returns when commands are heard, or the broker takes longer than `PATIENCE`."""
        self._thread = threading.Thread(
            target=self.loop, args=(c,), name="celery-pidbox", daemon=True
        )
        self._thread.start()
        self._listening.wait(PATIENCE)

    def stop(self, c: Any) -> None:
        """Obey no more. Returns at once; safe in a signal handler."""
        self._stopped = True

    def shutdown(self, c: Any) -> None:
        """Wait until it has left the broker, if that takes no longer than usual."""
        self._stopped = True
        if self._thread is not None:
            self._thread.join(2 * PAUSE)

    def reset(self) -> None:
        """Leave the broker, and listen to it anew, over another connection."""
        self._anew = True

    def on_stop(self) -> None:
        """When it has left the broker: nothing is heard."""
        self.node = self.connection = None

    @property
    def _is_over(self) -> bool:
        return self._stopped or self.consumer.closing

    def loop(self, c: Any) -> None:
        """Listen and obey until it is stopped; connect anew as often as it takes."""
        pause = PAUSE
        while not self._is_over:
            self._listening.clear()
            try:
                with self._connect() as connection:
                    self._serve(connection)
            except _StoppedError:
                return
            except Exception as error:  # whatever it is: the next connection may be better
                if self._listening.is_set():
                    pause = PAUSE
                    if isinstance(error, self._errors):
                        c.on_connection_error_after_connected(error)
                        continue
                logger.warning("Remote control: %s; trying again in %.1f s", one_line(error), pause)
                self._sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
            finally:
                self.on_stop()

    def _sleep(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._is_over and time.monotonic() < until:
            time.sleep(min(PAUSE, seconds))

    def _connect(self) -> Any:
        """A connection that is open. Raises `_StoppedError`."""
        app = self.consumer.app
        # Nobody would answer the broker's heartbeats while a command is carried out.
        connection = app.connection_for_read(heartbeat=0)
        self._errors = (*connection.recoverable_connection_errors, OSError)
        tries = Tries(connection, app.conf.broker_connection_max_retries)

        def go_on() -> None:
            if self._is_over:
                raise _StoppedError

        connection.ensure_connection(
            tries, callback=go_on, reraise_as_library_errors=False, **LATER
        )
        if self._was_connected or tries.count:
            connection_logger.info("Connected to %s", connection.as_uri())
        self._was_connected = True
        return connection

    def _serve(self, connection: Any) -> None:
        consumer = self.consumer
        channel = connection.channel()
        self.connection, self._anew = connection, False
        self.node = consumer.app.control.mailbox(connection).Node(
            consumer.hostname,
            state=AttributeDict(
                app=consumer.app,
                hostname=consumer.hostname,
                consumer=consumer,
                tset=set,
            ),
            handlers=Panel.data,
            channel=channel,
        )
        self.node.listen(channel, callback=self.on_message)
        self._listening.set()
        while not (self._is_over or self._anew):
            try:
                connection.drain_events(timeout=PAUSE)
            except TimeoutError:
                continue

    def on_message(self, body: Any, message: Any) -> None:
        """Obey a command, unless it is stopped."""
        if self._is_over:
            return
        controller = self.consumer.controller
        try:
            self.node.handle_message(body, message)
            state.maybe_shutdown()
        except WorkerTerminate as error:
            controller.exitcode = _code(error)
            controller.terminate()
        except WorkerShutdown as error:
            controller.stop(exitcode=_code(error))
        except Exception as error:
            # The command was carried out, but its answer did not get away.
            logger.exception("Remote control: no answer to %r", body.get("method"))
            if body.get("reply_to"):
                self.node.reply(
                    {self.node.hostname: {"error": repr(error)}},
                    **body["reply_to"],
                    ticket=body.get("ticket"),
                )


gPidbox = Pidbox  # noqa: N816  # Celery's name
"""Celery has another one where a pool has green threads: this one has a thread in any pool."""


class _StoppedError(Exception):
    """It is to end, and does not wait for the broker any more."""


def _code(error: SystemExit) -> int:
    return error.code if isinstance(error.code, int) else EX_OK
