"""Outages that every server can have: producers are told in time, workers in every pool go on, and
nothing is lost that was acknowledged.

A store joins by an entry in `outages.STORES`. Figures: ``pytest -s``, or ``PROMISES_FIGURES=file``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests import services
from tests.waiting import wait_for

from .outages import LEASE, STORES, Scene, scene

Measured = Callable[..., None]


@pytest.fixture(scope="module", params=STORES)
def hurt(
    request: pytest.FixtureRequest,
    require_server: Callable[[str], Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Scene]:
    """One store for all of these tests, and the same workers: they live through all of it."""
    program, start = STORES[request.param]
    require_server(program)
    options = ("--lease", str(LEASE))
    with scene(tmp_path_factory.mktemp(request.param), start, options) as made:
        yield made


def test_refused(hurt: Scene, measured: Measured) -> None:
    proxy = hurt.ground.proxy
    with hurt.outage("refused", measured) as producer:
        with producer.failing(10):
            proxy.refuse()
            proxy.reset()
        proxy.heal()


def test_black_hole(hurt: Scene, measured: Measured) -> None:
    """What is sent disappears, and nobody says so, until it heals."""
    proxy = hurt.ground.proxy
    with hurt.outage("black-hole", measured) as producer:
        with producer.failing():
            proxy.black_hole()
        proxy.heal()


def test_half_open(hurt: Scene, measured: Measured) -> None:
    """Connections that exist are dead, without a reset; new ones work."""
    with hurt.outage("half-open", measured) as producer, producer.failing():
        hurt.ground.proxy.strand()


def test_half_open_while_idle(hurt: Scene, measured: Measured) -> None:
    """Nobody works, so that nobody has noticed when there is something to do again."""
    with hurt.outage("idle", measured) as producer:
        producer.stop()
        producer.check_nothing_lost()
        hurt.ground.proxy.strand()


@pytest.mark.parametrize("way", services.Way, ids=lambda way: way.name.lower())
def test_reset_in_mid_command(hurt: Scene, measured: Measured, way: services.Way) -> None:
    """A request that did not arrive, and an answer that did not."""
    proxy = hurt.ground.proxy
    with hurt.outage(f"reset-{way.name.lower()}", measured) as producer:
        for _ in range(3):
            with producer.failing():
                proxy.reset_after(10 if way is services.Way.REQUESTS else 0, way)
            proxy.heal()
            # Only connections that exist are reset: it has to have one again.
            acknowledged = len(producer.acknowledged)
            wait_for(lambda before=acknowledged: len(producer.acknowledged) > before, "a job")  # type: ignore[misc]  # bound in this round


def test_killed_three_times(hurt: Scene, measured: Measured) -> None:
    with hurt.outage("killed", measured) as producer:
        for _ in range(3):
            with producer.failing():
                hurt.ground.server.kill()
            hurt.ground.server.restart()
            acknowledged = len(producer.acknowledged)
            wait_for(lambda before=acknowledged: len(producer.acknowledged) > before, "a job")  # type: ignore[misc]  # bound in this round
