"""``pydantic=True``: models in arguments and results."""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pydantic
import pytest
from kombu.exceptions import EncodeError

from celery import Celery
from celery.exceptions import ImproperlyConfigured

pytestmark = pytest.mark.unit
Work = Callable[..., None]


class Order(pydantic.BaseModel):
    number: int


class Receipt(pydantic.BaseModel):
    total: int


class Urgent(Order):
    by: int = 0


class Secret(pydantic.BaseModel):
    word: pydantic.SecretStr


class Checked(pydantic.BaseModel):
    number: int

    @pydantic.model_validator(mode="after")
    def with_context(self, info: pydantic.ValidationInfo) -> Checked:
        context: Any = info.context
        if context.get("limit") == self.number:
            raise ValueError(context["celery_task_name"])
        return self


@pytest.fixture
def bill(app: Celery) -> Any:
    @app.task(pydantic=True)  # type: ignore[untyped-decorator]  # as in Celery
    def bill(order: Order, extra: typing.Optional[Order] = None) -> Receipt:  # noqa: UP045
        return Receipt(total=order.number + (extra.number if extra else 0))

    return bill


def test_arguments_are_validated_and_results_are_dumped(bill: Any) -> None:
    assert bill({"number": "2"}) == {"total": 2}
    assert bill({"number": 2}, extra={"number": 3}) == {"total": 5}
    assert bill(Order(number=2), None) == {"total": 2}
    with pytest.raises(pydantic.ValidationError):
        bill({"number": "two"})


def test_models_travel_as_plain_values(bill: Any, app: Celery, work: Work) -> None:
    result = bill.delay(Order(number=2), extra=Order(number=3))
    work(app)
    assert result.get(timeout=1) == {"total": 5}


def test_arguments_without_models_stay_what_they_are(bill: Any, app: Celery) -> None:
    args, kwargs = [{"number": 1}], {"extra": None}
    with patch.object(app, "send_task") as sent:
        bill.apply_async(args, kwargs)
        bill.apply_async([Order(number=1)], serializer="pickle")
    first, second = sent.call_args_list
    assert first.args[1] is args
    assert first.args[2] is kwargs
    assert second.args[1] == [Order(number=1)]


def test_a_model_that_would_change_on_the_way_is_refused(app: Celery) -> None:
    @app.task(pydantic=True)  # type: ignore[untyped-decorator]  # as in Celery
    def take(order: Order | None = None, secret: Secret | None = None) -> None: ...

    app.conf.task_always_eager = True
    with pytest.raises(EncodeError):
        take.delay(Urgent(number=1, by=5))
    with pytest.raises(EncodeError):
        take.delay(secret=Secret(word=pydantic.SecretStr("sesame")))


def test_validators_know_the_task_and_what_it_gives_them(app: Celery) -> None:
    @app.task(name="take", bind=True, pydantic=True, pydantic_context={"limit": 3})  # type: ignore[untyped-decorator]  # as in Celery
    def take(self: Any, checked: Checked) -> str:
        return f"{self.name} {checked.number}"

    assert take({"number": 2}) == "take 2"
    with pytest.raises(pydantic.ValidationError, match="take"):
        take({"number": 3})
    with patch.object(app, "send_task") as sent:
        take.delay(Checked.model_construct(number=2))
    assert sent.call_args.args[1] == ({"number": 2},)


def test_how_strict_and_how_dumped(app: Celery) -> None:
    @app.task(pydantic=True, pydantic_strict=True, pydantic_dump_kwargs={"exclude_defaults": True})  # type: ignore[untyped-decorator]  # as in Celery
    def take(order: Order) -> Urgent:
        return Urgent(number=order.number)

    assert take({"number": 1}) == {"number": 1}
    with pytest.raises(pydantic.ValidationError):
        take({"number": "1"})


def test_without_pydantic_it_says_so(bill: Any) -> None:
    bill.name  # noqa: B018  # makes the task
    with (
        patch("importlib.import_module", side_effect=ModuleNotFoundError("pydantic")),
        pytest.raises(ImproperlyConfigured, match="You need to install pydantic"),
    ):
        bill({"number": 1})
