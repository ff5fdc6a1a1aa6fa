"""taskmq: a task queue whose promises can be checked.

>>> from taskmq import App, Config, Retry
>>> app = App(Config(transport="sqlite:///jobs.db"))
>>> @app.task(queue="email", retry=Retry(max_attempts=5))
... def send(to: str) -> str: ...
>>> send.delay("a@b.com").get(timeout=10)
"""

from .app import App, task
from .call import Call
from .clock import Clock
from .config import Config, QueueConfig
from .context import TaskContext, current_app, current_task
from .envelope import Dependency, Envelope
from .errors import (
    ConfigError,
    HardTimeLimit,
    IdempotencyConflict,
    JobExpired,
    JobRevoked,
    JobSkipped,
    MessageTooLarge,
    RemoteError,
    ResultError,
    ResultTimeout,
    SoftTimeLimit,
    TaskmqError,
    TransportError,
    UnknownJob,
)
from .limits import Rate
from .result import Result
from .retry import Retry
from .states import JobState
from .tasks import Task
from .transport import Transport

__all__ = [
    "App",
    "Call",
    "Clock",
    "Config",
    "ConfigError",
    "Dependency",
    "Envelope",
    "HardTimeLimit",
    "IdempotencyConflict",
    "JobExpired",
    "JobRevoked",
    "JobSkipped",
    "JobState",
    "MessageTooLarge",
    "QueueConfig",
    "Rate",
    "RemoteError",
    "Result",
    "ResultError",
    "ResultTimeout",
    "Retry",
    "SoftTimeLimit",
    "Task",
    "TaskContext",
    "TaskmqError",
    "Transport",
    "TransportError",
    "UnknownJob",
    "__version__",
    "current_app",
    "current_task",
    "task",
]

__version__ = "0.2.0"
