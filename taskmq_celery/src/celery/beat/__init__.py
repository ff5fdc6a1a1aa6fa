"""The scheduler of periodic tasks: what ``celery beat`` runs.

`Service` asks a `Scheduler` again and again what is due, and waits for as long as it says. A
scheduler has `ScheduleEntry` objects and calls their tasks. Libraries subclass both, to keep
schedules elsewhere (``celery beat -S …``); `PersistentScheduler` is what runs without them.

The logging functions are looked up here at the time of use: programs replace them here.
"""

from __future__ import annotations

from celery.utils.log import get_logger

logger = get_logger(__name__)
debug, info, warning, error = logger.debug, logger.info, logger.warning, logger.error

# After the names above, which these modules look up here.
from .embedded import EmbeddedService, _Process, _Threaded  # noqa: E402
from .entries import (  # noqa: E402
    BeatLazyFunc,
    ScheduleEntry,
    SchedulingError,
    _evaluate_entry_args,
    _evaluate_entry_kwargs,
    event_t,
)
from .persistent import PersistentScheduler  # noqa: E402
from .pidbox import BeatPidbox, beat_nodename  # noqa: E402
from .scheduler import DEFAULT_MAX_INTERVAL, Scheduler, reraise  # noqa: E402
from .service import Service  # noqa: E402

__all__ = (
    "BeatPidbox",
    "EmbeddedService",
    "PersistentScheduler",
    "ScheduleEntry",
    "Scheduler",
    "SchedulingError",
    "Service",
)
