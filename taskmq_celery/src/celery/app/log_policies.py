"""How the outcome of a task is logged: what, how loud, and with or without its traceback."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

from celery.exceptions import Ignore, Reject

LOG_FAILURE = "Task %(name)s[%(id)s] %(description)s: %(exc)s"
LOG_INTERNAL_ERROR = LOG_FAILURE
LOG_IGNORED = "Task %(name)s[%(id)s] %(description)s"
LOG_REJECTED = "Task %(name)s[%(id)s] %(exc)s"


class log_policy_t(NamedTuple):  # noqa: N801  # Celery's name
    """How one kind of outcome is logged."""

    format: str
    description: str
    severity: int
    traceback: bool
    mail: bool


log_policy_reject = log_policy_t(LOG_REJECTED, "rejected", logging.WARNING, True, True)
log_policy_ignore = log_policy_t(LOG_IGNORED, "ignored", logging.INFO, False, False)
log_policy_internal = log_policy_t(
    LOG_INTERNAL_ERROR, "INTERNAL ERROR", logging.CRITICAL, True, True
)
log_policy_expected = log_policy_t(LOG_FAILURE, "raised expected", logging.INFO, False, False)
log_policy_unexpected = log_policy_t(LOG_FAILURE, "raised unexpected", logging.ERROR, True, True)


def get_log_policy(task: Any, einfo: Any, exc: BaseException) -> log_policy_t:
    """The policy for an exception that came out of ``task``."""
    if isinstance(exc, Reject):
        return log_policy_reject
    if isinstance(exc, Ignore):
        return log_policy_ignore
    if einfo.internal:
        return log_policy_internal
    return log_policy_expected if _is_expected(task, exc) else log_policy_unexpected


def _is_expected(task: Any, exc: BaseException) -> bool:
    return bool(task.throws) and isinstance(exc, task.throws)
