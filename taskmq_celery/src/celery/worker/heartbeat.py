"""The events that say that a worker lives."""

from __future__ import annotations

from typing import Any

from celery.signals import heartbeat_sent
from celery.utils.sysinfo import load_average

from .state import SOFTWARE_INFO, active_requests, all_total_count

__all__ = ("Heart",)

INTERVAL = 2.0


class Heart:
    """Sends ``worker-online``, then ``worker-heartbeat`` every ``interval`` seconds (2 if not
    given), and ``worker-offline`` at the end. ``timer`` has ``call_repeatedly``.
    """

    def __init__(self, timer: Any, eventer: Any, interval: float | None = None) -> None:
        self.timer = timer
        self.eventer = eventer
        self.interval = float(interval or INTERVAL)
        self.tref: Any = None
        self.eventer.on_enabled.add(self.start)
        self.eventer.on_disabled.add(self.stop)
        # For as long as somebody wants to know: receivers are looked up once.
        self._send_sent_signal = heartbeat_sent.send if heartbeat_sent.receivers else None

    def counts(self) -> tuple[int, int]:
        """How many tasks run, and how many were started."""
        return len(active_requests), all_total_count[0]

    def _send(self, event: str, retry: bool = True) -> Any:
        if self._send_sent_signal is not None:
            self._send_sent_signal(sender=self)
        active, processed = self.counts()
        return self.eventer.send(
            event,
            freq=self.interval,
            active=active,
            processed=processed,
            loadavg=load_average(),
            retry=retry,
            **SOFTWARE_INFO,
        )

    def start(self) -> None:
        """Say that it is there, now and from now on, if events are sent at all."""
        if self.eventer.enabled:
            self._send("worker-online")
            self.tref = self.timer.call_repeatedly(self.interval, self._send, ("worker-heartbeat",))

    def stop(self) -> None:
        """Say that it is gone."""
        if self.tref is not None:
            self.timer.cancel(self.tref)
            self.tref = None
        if self.eventer.enabled:
            self._send("worker-offline", retry=False)
