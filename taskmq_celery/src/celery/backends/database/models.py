"""The tables that results are in: ``celery_taskmeta`` and ``celery_tasksetmeta``."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import sqlalchemy as sa
from sqlalchemy.types import BigInteger, Integer

from .session import ResultModelBase

__all__ = ("Task", "TaskExtended", "TaskSet")

DialectSpecificInteger = Integer().with_variant(BigInteger(), "mssql")


def _now() -> datetime:
    return datetime.now(timezone.utc)


def _key(sequence: str) -> Any:
    return sa.Column(
        DialectSpecificInteger,
        sa.Sequence(sequence),
        primary_key=True,
        autoincrement=True,
    )


def _configured(cls: Any, schema: str | None, name: str | None) -> None:
    cls.__table__.schema = schema
    cls.__table__.c.id.default.schema = schema
    cls.__table__.name = name or cls.__tablename__


class Task(ResultModelBase):  # type: ignore[misc]  # made at run time
    """The record of a task. Values are payloads of the result serializer."""

    __allow_unmapped__ = True
    __tablename__ = "celery_taskmeta"
    __table_args__ = {"sqlite_autoincrement": True}  # noqa: RUF012  # SQLAlchemy's

    id = _key("task_id_sequence")
    task_id: Any = sa.Column(sa.String(155), unique=True)
    status = sa.Column(sa.String(50), default="PENDING")
    result: Any = sa.Column(sa.LargeBinary, nullable=True)
    date_done = sa.Column(sa.DateTime, default=_now, onupdate=_now, nullable=True, index=True)
    traceback = sa.Column(sa.Text, nullable=True)
    children = sa.Column(sa.LargeBinary, nullable=True)

    def __init__(self, task_id: str) -> None:
        self.task_id = task_id

    def to_dict(self) -> dict[str, Any]:
        """The columns, by name."""
        return {
            "task_id": self.task_id,
            "status": self.status,
            "result": self.result,
            "traceback": self.traceback,
            "date_done": self.date_done,
            "children": _column(self, "children"),
        }

    def __repr__(self) -> str:
        return f"<Task {self.task_id} state: {self.status}>"

    @classmethod
    def configure(cls, schema: str | None = None, name: str | None = None) -> None:
        """Use another schema, or another name of the table."""
        _configured(cls, schema, name)


class TaskExtended(Task):
    """A record with what ``result_extended`` adds."""

    __allow_unmapped__ = True
    __tablename__ = "celery_taskmeta"
    __table_args__ = {"sqlite_autoincrement": True, "extend_existing": True}  # noqa: RUF012  # SQLAlchemy's

    # What the call was; args, kwargs and stamps are payloads.
    name, worker, queue = (sa.Column(sa.String(155), nullable=True) for _ in range(3))
    args, kwargs, stamps = (sa.Column(sa.LargeBinary, nullable=True) for _ in range(3))
    retries = sa.Column(sa.Integer, nullable=True)

    def to_dict(self) -> dict[str, Any]:
        names = ("name", "args", "kwargs", "worker", "retries", "queue")
        return {
            **super().to_dict(),
            **{name: getattr(self, name) for name in names},
            "stamps": _column(self, "stamps"),
        }


class TaskSet(ResultModelBase):  # type: ignore[misc]  # made at run time
    """The record of a group."""

    __allow_unmapped__ = True
    __tablename__ = "celery_tasksetmeta"
    __table_args__ = {"sqlite_autoincrement": True}  # noqa: RUF012  # SQLAlchemy's

    id = _key("taskset_id_sequence")
    taskset_id: Any = sa.Column(sa.String(155), unique=True)
    result: Any = sa.Column(sa.LargeBinary, nullable=True)
    date_done = sa.Column(sa.DateTime, default=_now, nullable=True, index=True)

    def __init__(self, taskset_id: str, result: Any) -> None:
        self.taskset_id = taskset_id
        self.result = result

    def to_dict(self) -> dict[str, Any]:
        """The columns, by name."""
        return {"taskset_id": self.taskset_id, "result": self.result, "date_done": self.date_done}

    def __repr__(self) -> str:
        return f"<TaskSet: {self.taskset_id}>"

    @classmethod
    def configure(cls, schema: str | None = None, name: str | None = None) -> None:
        """Use another schema, or another name of the table."""
        _configured(cls, schema, name)


def _column(record: Any, name: str) -> Any:
    """A column that tables of old versions do not have."""
    try:
        return getattr(record, name)
    except Exception:  # it was left out of the query, and the session is closed
        return None
