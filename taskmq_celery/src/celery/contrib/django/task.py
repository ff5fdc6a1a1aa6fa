"""Tasks of Django programs."""

from __future__ import annotations

import functools
from typing import Any

from django.db import transaction

from celery.app.task import Task

__all__ = ("DjangoTask",)


class DjangoTask(Task):
    """Can be called at the end of the database transaction, so that the worker finds its rows.

    Nothing is called if the transaction is rolled back. Outside of a transaction it is called at
    once. The id of the task is not known yet: these methods give nothing.
    """

    abstract = True

    def delay_on_commit(self, *args: Any, **kwargs: Any) -> None:
        """`delay`, once the transaction is committed."""
        transaction.on_commit(functools.partial(self.delay, *args, **kwargs))

    def apply_async_on_commit(self, *args: Any, **kwargs: Any) -> None:
        """`apply_async`, once the transaction is committed."""
        transaction.on_commit(functools.partial(self.apply_async, *args, **kwargs))
