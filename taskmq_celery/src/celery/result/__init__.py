"""Results of tasks: handles that ask the store, and results of tasks that ran here."""

from __future__ import annotations

from vine import Thenable

from celery._state import task_join_will_block as task_join_will_block

from .blocking import allow_join_result, assert_will_not_block, denied_join_result
from .eager import EagerResult
from .relatives import ResultBase
from .sets import GroupResult, ResultSet
from .single import AsyncResult, result_from_tuple

__all__ = (
    "AsyncResult",
    "EagerResult",
    "GroupResult",
    "ResultBase",
    "ResultSet",
    "result_from_tuple",
)

BaseAsyncResult = AsyncResult

for _each in (AsyncResult, EagerResult, GroupResult, ResultBase, ResultSet):
    _each.__module__ = __name__  # where a pickle of theirs says that they are
Thenable.register(AsyncResult)
Thenable.register(ResultSet)
