"""Workers that die around the moment at which a result is written."""

from __future__ import annotations

from typing import Any

import pytest

BACKEND = """
import os
from pathlib import Path
from celery import Celery
from celery.backends.filesystem import FilesystemBackend

HERE = Path(__file__).parent
RESULTS = HERE / "results"
RESULTS.mkdir(exist_ok=True)

class Dies(FilesystemBackend):
    '''Takes its process along, once: before or behind the first success.'''

    def _set_with_state(self, key, value, state):
        first = state == "SUCCESS" and not (HERE / "died").exists()
        if first:
            (HERE / "died").touch()
        if first and os.environ["DIES"] == "before":
            os._exit(9)
        super()._set_with_state(key, value, state)
        if first:
            os._exit(9)

app = Celery("proj")
app.conf.result_backend = None

@app.task
def work():
    with (HERE / "runs").open("a") as runs:
        runs.write("run\\n")
    return "done"
"""

ASK = """
import json, proj
result = proj.app.AsyncResult({id!r})
value = result.get(timeout=15)
record = json.loads((proj.RESULTS / f"celery-task-meta-{id}").read_bytes())
print(json.dumps([value, result.state, record["status"], (proj.HERE / "runs").read_text()]))
"""


@pytest.mark.slow  # three processes are started, one after the other
@pytest.mark.parametrize(("pool", "when"), [("threads", "behind"), ("prefork", "before")])
def test_a_result_is_written_and_the_task_is_over_whenever_its_process_dies(
    program: Any, when: str, pool: str
) -> None:
    program.write(BACKEND)
    program.environment["CELERY_RESULT_BACKEND"] = (
        f"proj.Dies+{(program.folder / 'results').as_uri()}"
    )
    task_id = program.ask("import json, proj; print(json.dumps(proj.work.delay().id))")
    first = program.worker("-P", pool, "-c", "1", DIES=when)
    if pool == "threads":  # the worker itself died
        assert first.exit_code() == 9
        program.worker("-P", pool, "-c", "1", DIES=when)
    value, state, stored, runs = program.ask(ASK.format(id=task_id))
    assert (value, state, stored) == ("done", "SUCCESS", "SUCCESS")
    assert runs.count("run") == 2
