"""``except MaxRetriesExceededError``: what is done in place of a retry that is one too many."""

from types import ModuleType

import pytest
from tests.migrate.tools import migrate

from taskmq import App
from taskmq.testing import isolated, worker_for

HEAD = (
    "from celery import Celery\nfrom celery.exceptions import MaxRetriesExceededError\n\n"
    "app = Celery()\ntold = []\n\n\n"
    "@app.task(bind=True, max_retries=1, default_retry_delay=0)\ndef work(self):\n"
)
AGAIN = (
    "    try:\n        try:\n            raise OSError\n        except OSError:\n"
    "            self.retry()\n"
    "    except ({}MaxRetriesExceededError, OSError):\n        told.append(self.request.retries)\n"
)
ALONE = (
    "    try:\n        raise OSError\n    except OSError:\n        try:\n"
    "            # once more\n            raise self.retry(countdown=0)\n"
    "        except MaxRetriesExceededError:\n            told.append(self.request.retries)\n"
    "            return 1  # enough\n"
)


def native(body: str) -> str:
    """A task, moved, of which a second run leaves everything."""
    run = migrate({"tasks.py": HEAD + body}, to="native")
    assert migrate(run.files, to="native").files == run.files
    return run.text


@pytest.mark.parametrize("body", [AGAIN.format(""), ALONE])
def test_the_last_attempt_does_what_the_handler_did(body: str) -> None:
    text = native(body)
    assert "MaxRetriesExceededError" not in text
    module = ModuleType("tasks")
    exec(compile(text, "tasks.py", "exec"), vars(module))  # noqa: S102  # what was written above
    app: App = module.app
    with isolated(app), worker_for(app) as worker:
        handle = module.work.delay()
        worker.run_until_idle()
        assert handle.state == "SUCCEEDED"
    assert module.told == [1]


def test_a_try_of_the_retry_alone_is_a_condition() -> None:
    assert native(ALONE).endswith(
        "    except OSError:\n        # once more\n        if self.request.is_last_attempt:\n"
        "            told.append(self.request.attempt - 1)\n            return 1  # enough\n"
        "        else:\n            raise self.request.retry(delay=0)\n"
    )


@pytest.mark.parametrize(
    "body",
    [
        AGAIN.format("ValueError, ").replace("except OSError:", "except KeyError:"),
        AGAIN.format("").replace("OSError):", "OSError) as e:"),
        AGAIN.format("").replace("            self.retry", "            print(), self.retry"),
        AGAIN.format("").replace("self.retry()", "self.retry(exc=OSError())"),
        AGAIN.format("").replace("self.retry()", "self.retry()\n            self.retry()"),
        ALONE.replace("            # once", "            print()\n            # once"),
        ALONE.replace("            told", "            pass\n        finally:\n            told"),
    ],
)
def test_what_is_not_so_plain_is_marked(body: str) -> None:
    text = native(body)
    assert "# TODO(taskmq-migrate TMQ111)" in text
    assert "self.retry(" in text
    assert "MaxRetriesExceededError" in text
