"""Exceptions: text, pickles, hierarchy. What is expected was recorded from Celery 5.7."""

from __future__ import annotations

import datetime
import pickle

import pytest
from billiard.exceptions import SoftTimeLimitExceeded

from celery import exceptions
from celery.exceptions import (
    BackendGetMetaError,
    BackendStoreError,
    CeleryError,
    MaxRetriesExceededError,
    NotRegistered,
    Reject,
    Retry,
    TaskError,
    TaskPredicate,
    reraise,
)

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (Retry("m", ValueError("x"), 30), "m"),
        (Retry(exc=ValueError("x"), when=30), "Retry in 30s: ValueError('x')"),
        (Retry(when=3.5), "Retry in 3.5s"),
        (Retry(when=datetime.datetime(2030, 1, 1)), "Retry at 2030-01-01 00:00:00"),
        (Retry(exc="text"), "Retry at None: text"),
        (Reject("why"), "('why', False)"),
        (NotRegistered("t.x"), "'t.x'"),
        (MaxRetriesExceededError("t", task_args=(1,)), "t"),
    ],
)
def test_texts(error: Exception, text: str) -> None:
    assert str(error) == text


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (Reject("why", requeue=True), "reject requeue=True: why"),
        (
            NotRegistered("t.x"),
            "Task of kind 't.x' never registered, please make sure it's imported.",
        ),
        (BackendGetMetaError("m", task_id="x"), "BackendGetMetaError('m') task_id:x"),
        (
            BackendStoreError("m", state="S", task_id="x"),
            "BackendStoreError('m') state:S task_id:x",
        ),
    ],
)
def test_representations(error: Exception, text: str) -> None:
    assert repr(error) == text


def test_a_retry_survives_pickling() -> None:
    copy = pickle.loads(pickle.dumps(Retry("m", ValueError("x"), 30)))  # noqa: S301  # our own bytes
    assert (copy.message, copy.excs, copy.when, copy.humanize()) == (
        "m",
        "ValueError('x')",
        30,
        "in 30s",
    )


def test_the_tree() -> None:
    assert issubclass(Retry, TaskPredicate)
    assert issubclass(NotRegistered, KeyError)
    assert issubclass(TaskError, CeleryError)
    assert not issubclass(exceptions.TimeoutError, TimeoutError)
    assert exceptions.SoftTimeLimitExceeded is SoftTimeLimitExceeded
    assert issubclass(exceptions.WorkerShutdown, SystemExit)
    assert exceptions.CeleryCommandException("m", 64).exit_code == 64
    for name in exceptions.__all__:
        assert hasattr(exceptions, name)


def test_reraising_keeps_the_traceback() -> None:
    try:
        raise KeyError("x")
    except KeyError as error:
        caught = error
    trace = caught.__traceback__
    with pytest.raises(KeyError) as raised:
        reraise(KeyError, caught, trace)
    assert raised.value is caught
