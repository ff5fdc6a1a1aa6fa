"""The fixtures of `celery.contrib.pytest`, as a program's tests use them."""

from __future__ import annotations

import pytest

pytest_plugins = ("pytester",)
pytestmark = pytest.mark.integration

CONFTEST = """
import pytest
import shared  # before there is an app: what is declared in a test goes with it

pytest_plugins = ("celery.contrib.pytest",)

@pytest.fixture(scope="session")
def celery_config(tmp_path_factory):
    return {"broker_url": f"sqlite:///{tmp_path_factory.mktemp('store')}/jobs.db"}

@pytest.fixture(scope="session")
def celery_includes():
    return ["shared"]

@pytest.fixture(scope="session")
def celery_class_tasks():
    from celery import Task

    class Greet(Task):
        name = "greet"

        def run(self, whom):
            return f"hello {whom}"

    return [Greet]
"""
SHARED = """
from celery import shared_task

@shared_task
def double(x):
    return 2 * x
"""
TESTS = """
import celery
import pytest
from celery import _state

@pytest.mark.celery(task_default_queue="mine")
def test_settings_of_one_test(celery_app):
    assert celery_app.conf.task_default_queue == "mine"
    assert celery_app.main == "celery.tests"
    assert celery_app.conf.timezone == "UTC"

def test_the_next_test_has_its_own(celery_app):
    assert celery_app.conf.task_default_queue == "celery"

def test_not_current_unless_asked_for(celery_app):
    assert _state._tls.current_app is None

def test_current(celery_app, depends_on_current_app):
    assert celery.current_app == celery_app

def test_a_worker_of_its_own(celery_app, celery_worker):
    @celery_app.task
    def mul(x, y):
        return x * y

    celery_worker.reload()
    assert mul.delay(4, 4).get(timeout=20) == 16
    assert celery_app.tasks["shared.double"].delay(4).get(timeout=20) == 8

def test_a_worker_of_the_session(celery_session_app, celery_session_worker):
    from shared import double

    assert celery.current_app == celery_session_app
    assert double.delay(21).get(timeout=20) == 42
    assert celery_session_app.send_task("greet", ("you",)).get(timeout=20) == "hello you"
"""


@pytest.fixture(autouse=True)
def without_other_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading those that are installed takes longer than everything else here."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def test_the_fixtures(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(shared=SHARED, test_program=TESTS)
    outcome = pytester.runpytest_subprocess("-q", "--strict-markers", "-p", "no:cacheprovider")
    outcome.assert_outcomes(passed=6)


def test_a_trap_for_tests_that_use_another_app(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("""
import pytest

@pytest.fixture(scope="session")
def use_celery_app_trap():
    return True
""")
    pytester.makepyfile("""
import celery

def test_uses_the_current_app(celery_app):
    celery.current_app.tasks
""")
    outcome = pytester.runpytest_subprocess("-q", "-p", "celery.contrib.pytest")
    outcome.assert_outcomes(failed=1)
    outcome.stdout.fnmatch_lines(["*RuntimeError: Test depends on current_app*"])
