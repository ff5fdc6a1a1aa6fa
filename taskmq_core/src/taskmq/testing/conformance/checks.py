"""Expectations that say what they expected. No test runner needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

__all__ = ["BrokenPromise", "equal", "holds", "near", "present", "raises"]

T = TypeVar("T")


class BrokenPromise(AssertionError):
    """A transport did not do what the port promises."""


def equal(actual: object, expected: object, what: str) -> None:
    """``actual`` equals ``expected``."""
    if actual != expected:
        raise BrokenPromise(f"{what}: expected {expected!r}, got {actual!r}")


def holds(condition: object, what: str) -> None:
    """``condition`` is true; ``what`` says what that means."""
    if not condition:
        raise BrokenPromise(f"expected: {what}")


def near(actual: float | None, expected: float, what: str, *, within: float = 1e-6) -> None:
    """Two numbers that a store may have rounded (instants: to a microsecond)."""
    if actual is None or abs(actual - expected) > within:
        raise BrokenPromise(f"{what}: expected {expected!r} (within {within:g}), got {actual!r}")


def present(value: T | None, what: str) -> T:
    """The value, which must not be ``None``."""
    if value is None:
        raise BrokenPromise(f"expected {what}, got None")
    return value


@contextmanager
def raises(kind: type[BaseException], what: str) -> Iterator[None]:
    """The block raises ``kind``."""
    try:
        yield
    except kind:
        return
    except Exception as error:
        raise BrokenPromise(f"{what}: expected {kind.__name__}, got {error!r}") from error
    raise BrokenPromise(f"{what}: expected {kind.__name__}, nothing was raised")
