"""The fixtures, as a project of somebody else would use them."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

CONFTEST = """
    import pytest
    from taskmq import App, Config

    pytest_plugins = ["taskmq.testing.pytest_plugin"]
    program = App(Config(transport="sqlite:////nowhere/production.db"))

    @program.task(name="double")
    def double(n: int) -> int:
        return 2 * n
"""

OWN_APP = """
    from conftest import double, program
    import pytest

    @pytest.fixture
    def taskmq_app(taskmq_isolated):
        return taskmq_isolated(program)

    def test_double(taskmq_worker, taskmq_clock):
        handle = double.submit(3, eta=60)
        taskmq_worker.run_until_idle()
        assert handle.state == "QUEUED"
        taskmq_worker.advance(60)
        assert handle.get(timeout=0) == 6
        assert program.clock is taskmq_clock

    def test_the_store_of_the_last_test_is_gone(taskmq_worker):
        assert taskmq_worker.jobs() == []
"""

NEW_APP = """
    def test_hello(taskmq_app, taskmq_worker, taskmq_transport):
        @taskmq_app.task
        def hello() -> str:
            return "hello"

        handle = hello.delay()
        taskmq_worker.run_until_idle()
        assert handle.get(timeout=0) == "hello"
        assert taskmq_app.transport is taskmq_transport
"""


@pytest.mark.parametrize(("body", "tests"), [(OWN_APP, 2), (NEW_APP, 1)], ids=["own", "new"])
def test_a_project_can_test_its_tasks(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, body: str, tests: int
) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_tasks=body)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    run = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-q")
    run.assert_outcomes(passed=tests)


def test_the_plugin_is_not_forced_on_anybody(pytester: pytest.Pytester) -> None:
    """A project that happens to have the engine installed does not import it for its tests."""
    pytester.makepyfile("import sys\ndef test_it():\n    assert 'taskmq' not in sys.modules")
    pytester.runpytest_subprocess("-p", "no:cacheprovider", "-q").assert_outcomes(passed=1)
