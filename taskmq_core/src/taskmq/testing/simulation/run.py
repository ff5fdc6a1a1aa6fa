"""From a seed and a transport to a report."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from taskmq.clock import Clock
from taskmq.plugins import open_transport
from taskmq.testing.clock import FakeClock
from taskmq.testing.conformance.target import resolve
from taskmq.transport import Transport

from .report import Report
from .schedule import Schedule
from .simulator import Simulation

__all__ = ["OpenStore", "replay", "simulate"]

OpenStore = Callable[[Clock], Transport]
"""Opens a handle on the store under test; called again for each process if it is ``shared``."""


def simulate(seed: int, steps: int = 400, transport: str | OpenStore = "memory") -> Report:
    """Run one simulation to its end.

    ``transport`` is ``memory``, ``sqlite`` (a file that is deleted afterwards), the URL of an
    empty store, ``module:factory`` as for the conformance suite (``factory(name, clock)``), or a
    function that opens a store on the clock that it is given. The same seed, steps and transport
    give the same simulation on every machine. Raises `ConfigError` for a transport that there is
    not.
    """
    name = transport if isinstance(transport, str) else f"<{_name_of(transport)}>"
    return replay(Schedule.draw(seed, steps, name), transport)


def replay(schedule: Schedule, transport: str | OpenStore | None = None) -> Report:
    """Run a schedule, on its own kind of store or another. Raises `ConfigError`."""
    clock = FakeClock()
    with _opener(transport or schedule.transport, clock) as open_handle, _quiet():
        simulation = Simulation(schedule.profile, clock, open_handle)
        try:
            simulation.run(schedule)
            simulation.drain(schedule)
        finally:
            simulation.close()
    world, observer = simulation.world, simulation.world.observer
    return Report(
        schedule=schedule,
        violations=tuple(observer.findings.violations),
        journal=world.journal,
        jobs=len(observer.model.jobs) + len(observer.model.deleted),
        runs=observer.ledger.started,
        stale_starts=observer.ledger.stale_starts,
        crashes=simulation.crew.crashes,
        faults=world.faults.before + world.faults.after,
    )


def _name_of(function: OpenStore) -> str:
    return getattr(function, "__name__", type(function).__name__).strip("<>")


@contextmanager
def _opener(transport: str | OpenStore, clock: Clock) -> Iterator[Callable[[], Transport]]:
    if not isinstance(transport, str):
        yield lambda: transport(clock)
    elif "://" in transport:
        yield lambda: open_transport(transport, clock=clock)
    elif ":" in transport:
        open_store = resolve(transport)
        yield lambda: open_store("simulation", clock)
    elif transport == "sqlite":
        with tempfile.TemporaryDirectory(prefix="taskmq-simulation-") as folder:
            url = f"sqlite:///{Path(folder, 'jobs.db')}"
            yield lambda: open_transport(url, clock=clock)
    else:
        yield lambda: open_transport(f"{transport}://", clock=clock)


@contextmanager
def _quiet() -> Iterator[None]:
    """No warnings about lost leases and stores that do not answer: they are the point."""
    logger = logging.getLogger("taskmq")
    before = logger.disabled, logger.propagate, logger.level
    logger.propagate, logger.level = False, logging.CRITICAL + 1
    try:
        yield
    finally:
        logger.disabled, logger.propagate, logger.level = before
