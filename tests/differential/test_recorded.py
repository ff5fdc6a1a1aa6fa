"""The shim does what the real Celery did with the recorded canvases."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import services

from . import recorded
from .intended import DIFFERENCES, Difference, explained
from .sides import Shim, shim

pytestmark = pytest.mark.filterwarnings("ignore:task_allow_error_cb_on_chord_header=False")

SLICES = 5


@pytest.fixture(autouse=True)
def without_logs() -> Iterator[None]:
    """Many tasks fail here."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(params=["redis", "sqlite"])
def side(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shim]:
    if request.param == "redis":
        server: services.Redis = request.getfixturevalue("redis_server")
        server.cli("FLUSHALL")
        urls = (server.url, server.url)
    else:
        urls = (f"sqlite:///{tmp_path}/jobs.db", "rpc://")
    with shim(*urls, tmp_path) as made:
        yield made


@pytest.mark.parametrize("part", range(SLICES))
def test_the_same_as_celery(side: Shim, part: int) -> None:
    found = recorded.load()[part::SLICES]
    ours = side.run([canvas for canvas, _ in found])
    wrong = [
        (json.dumps(canvas), theirs, outcome)
        for (canvas, theirs), outcome in zip(found, ours, strict=True)
        if explained(canvas, theirs, outcome) is None
    ]
    assert wrong == []


def test_every_difference_shows_and_is_told_by_its_example(tmp_path: Path) -> None:
    celery = {json.dumps(canvas): outcome for canvas, outcome in recorded.load()}
    with shim(f"sqlite:///{tmp_path}/jobs.db", "rpc://", tmp_path) as side:
        ours = side.run([each.example for each in DIFFERENCES])
    for difference, outcome in zip(DIFFERENCES, ours, strict=True):
        theirs = celery[json.dumps(difference.example)]
        assert difference.name in (explained(difference.example, theirs, outcome) or ())


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda each: each.name)
def test_no_difference_explains_another_canvas(difference: Difference) -> None:
    plain = {"is": "task", "of": "keep", "tag": 1}
    assert not difference.applies(plain)
    assert explained(plain, {"get": 1}, {"get": 2}) is None
