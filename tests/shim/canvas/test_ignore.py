"""Tasks that raise `Ignore`: they have no result but what the program stores itself."""

# mypy: disable-error-code="untyped-decorator"
# Celery's decorators carry no types.

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from celery import Celery, chain, chord, group
from celery.exceptions import Ignore, TimeoutError

from .conftest import make_tasks

Work = Callable[[], None]


@pytest.fixture
def skip(app: Any) -> Any:
    """Tells of itself whatever it is given, and is ignored."""

    @app.task(name="skip", bind=True)
    def skip(self: Any, state: str | None = None) -> None:
        if state == "FAILURE":
            self.backend.store_result(self.request.id, ValueError("mine"), state)
        elif state:
            self.update_state(state=state, meta={"of": "mine"})
        raise Ignore

    return skip


@pytest.fixture(params=["rpc", "file"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """Results in the engine's store alone, and in another one beside it."""
    backend = "rpc://" if request.param == "rpc" else f"file://{tmp_path}"
    made = Celery("proj", broker="memory://", backend=backend, set_as_current=True)
    yield made
    made.close()


@pytest.fixture
def t(app: Any) -> Any:
    return make_tasks(app)


def test_nothing_behind_it_runs_and_no_error_callback(t: Any, skip: Any, work: Work) -> None:
    in_chain = chain(skip.si(), t.same.si(1), group(t.same.si(2), t.same.si(3))).apply_async()
    body = t.same.si(4).on_error(t.note.si("error"))
    in_chord = chord([skip.si(), t.note.si("beside")], body).apply_async()
    linked = skip.apply_async(link=t.same.si(5))
    work()
    assert t.ran == [("note", "beside")]
    for result in (*in_chain, in_chain.parent, in_chord, in_chord.parent[0], linked):
        assert (result.state, result.ready()) == ("PENDING", False)
    for result in (in_chain, in_chord, linked):
        with pytest.raises(TimeoutError):
            result.get(timeout=0.01)


def test_a_state_of_its_own_stays(app: Any, t: Any, skip: Any, work: Work) -> None:
    result = group(skip.s("BANKING"), t.same.s(1)).apply_async()
    work()
    assert (result[0].state, result[0].info) == ("BANKING", {"of": "mine"})
    assert not result.ready()
    app.backend.store_result(result[0].id, "paid", "SUCCESS")  # by whoever sees to the rest
    assert result[0].get(timeout=1) == "paid"
    assert result.get(timeout=1) == ["paid", 1]


def test_an_error_that_it_stores_is_its_result(t: Any, skip: Any, work: Work) -> None:
    result = group(skip.s("FAILURE"), t.same.s(1)).apply_async()
    work()
    with pytest.raises(ValueError, match="mine"):
        result.get(timeout=1)
    with pytest.raises(ValueError, match="mine"):
        result[0].get(timeout=1)
