"""Task names to tasks, and nothing else."""

import pytest

from taskmq import ConfigError
from taskmq.errors import UnknownTask
from taskmq.registry import Registry
from taskmq.tasks import FunctionTask


def add(x: int, y: int) -> int:
    return x + y


def test_a_name_is_looked_up_and_never_imported() -> None:
    registry = Registry()
    task: FunctionTask[[int, int], int] = FunctionTask(add, name="add")
    registry.add(task)
    registry.add(task)  # twice is no harm
    assert registry["add"] is task
    assert registry.find("add") is task
    assert registry.find("os.system") is None
    assert "add" in registry
    assert "os.system" not in registry
    assert (list(registry), len(registry), registry.names()) == ([task], 1, ["add"])


def test_an_unknown_name_names_the_nearest() -> None:
    registry = Registry()
    registry.add(FunctionTask(add, name="shop.add"))
    with pytest.raises(UnknownTask, match=r"no task 'shop\.ad'; did you mean 'shop\.add'"):
        registry["shop.ad"]


def test_two_tasks_cannot_share_a_name() -> None:
    registry = Registry()
    registry.add(FunctionTask(add, name="add"))
    with pytest.raises(ConfigError, match="two tasks are named 'add'; give one of them another"):
        registry.add(FunctionTask(add, name="add"))
