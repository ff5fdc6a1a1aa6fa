"""Workflows where they touch other parts: pools, payload stores, asyncio, eager mode, errors."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from taskmq import App, Config, ConfigError, current_task
from taskmq.builtin import COLLECT, MAP
from taskmq.config import QueueConfig
from taskmq.errors import JobSkipped, PayloadUnavailable, RemoteError
from taskmq.ids import origin_of
from taskmq.payloads import FilePayloadStore
from taskmq.records import LostJob
from taskmq.states import JobState
from taskmq.testing import FakeClock, TransportWrapper, worker_for
from taskmq.transport import Capabilities
from taskmq.worker import Worker
from taskmq.workflow import Workflow

S = JobState
BIG = "x" * 5000


def make_app(url: str, *, payloads: Any = None, clock: Any = None, **config: Any) -> App:
    app = App(Config(transport=url, **config), payloads=payloads, clock=clock)

    @app.task(name="twice")
    def twice(text: str) -> Any:
        return current_task().replace(app.tasks["say"].call([text, text]))

    @app.task(name="join")
    def join(parts: list[str], end: str = "") -> str:
        return "".join(parts) + end

    @app.task(name="say")
    def say(text: Any) -> Any:
        return text

    @app.task(name="fail")
    def fail(*args: Any) -> None:
        raise ValueError("no")

    @app.task(name="letters")
    def letters(count: int) -> list[str]:
        return [chr(ord("a") + number) for number in range(count)]

    @app.task(name="instead")
    def instead(text: str) -> Any:
        """Replaces itself by a workflow."""
        flow = Workflow("instead")
        flow.add(app.tasks["join"], [flow.add(app.tasks["say"], part) for part in text])
        return current_task().replace(flow)

    @app.task(name="other")
    def other(name: str, *args: Any) -> Any:
        """Replaces itself by a single call."""
        return current_task().replace(app.tasks[name].call(*args))

    @app.task(name="grow")
    def grow(depth: int) -> Any:
        more = [app.tasks["grow"].call(depth - 1)] if depth else []
        return current_task().extend(*more, result=str(depth))

    @app.task(name="losses")
    def losses(lost: list[LostJob]) -> list[str]:
        return [f"{each.state}: {each.failure.message if each.failure else ''}" for each in lost]

    return app


@pytest.fixture(params=["memory", "sqlite", "redis", "postgres"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[App]:
    embedded = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/jobs.db"}
    url = embedded.get(request.param) or request.getfixturevalue(f"{request.param}_url")
    app = make_app(url, offload_above=100, payload_store=f"file://{tmp_path}/payloads")
    if not app.transport.capabilities.workflows:
        pytest.skip("this store has no workflows")
    yield app
    app.close()


def work(app: App) -> None:
    with worker_for(app) as worker:
        worker.run_until_idle(timeout=30)


def outcome(app: App, flow: Workflow) -> Any:
    run = flow.submit(app)
    work(app)
    return run.get(timeout=10)


def everything(app: App) -> Workflow:
    """A replacement, a replacement by a call, an extension and a map, joined."""
    task = app.tasks
    flow = Workflow("everything")
    parts = [
        flow.add(task["instead"], "abc"),
        flow.add(task["other"], "instead", "de"),
        flow.add(task["join"], flow.map(task["say"], flow.add(task["letters"], 3))),
        flow.add(task["grow"], 2),
    ]
    flow.add(task["join"], parts, end=".")
    return flow


def test_a_full_queue_refuses_nothing_that_a_task_adds(tmp_path: Path) -> None:
    """The worker that would have to wait for room is the one that makes it."""
    for url in ("memory://", f"sqlite:///{tmp_path}/jobs.db"):
        with make_app(url, queues={"default": QueueConfig(capacity=2)}) as app:
            flow = Workflow("narrow")
            flow.add(app.tasks["join"], [flow.add(app.tasks["instead"], "abcdef")], end=".")
            assert outcome(app, flow) == "abcdef."


# -- pools -----------------------------------------------------------------------------------------


def test_all_of_it(app: App) -> None:
    assert outcome(app, everything(app)) == "abcdeabc210."


@pytest.mark.parametrize("pool", ["threads", "asyncio"])
def test_all_of_it_in_other_pools(app: App, pool: Any) -> None:
    run = everything(app).submit()
    with worker_for(app, pool=pool, concurrency=4) as worker:
        worker.run_until_idle(timeout=60)
    assert run.get(timeout=10) == "abcdeabc210."


def test_all_of_it_in_child_processes(tmp_path: Path) -> None:
    """What a task adds crosses the pipe to the worker."""
    app = make_app(f"sqlite:///{tmp_path}/jobs.db", pool="processes", concurrency=2)
    run = everything(app).submit()
    Worker(app).run_until_idle(60)
    assert run.get(timeout=10) == "abcdeabc210."
    app.close()


def test_all_of_it_eagerly() -> None:
    app = make_app("memory://", eager=True)
    assert everything(app).submit().get(timeout=10) == "abcdeabc210."


def test_asyncio_callers(app: App) -> None:
    async def main() -> Any:
        run = await everything(app).asubmit()
        working = asyncio.to_thread(work, app)
        value, _ = await asyncio.gather(run.aget(timeout=60), working)
        return value

    assert asyncio.run(main()) == "abcdeabc210."


# -- payload stores --------------------------------------------------------------------------------


def test_large_results_are_forwarded_and_handed_over(app: App) -> None:
    task = app.tasks
    flow = Workflow()
    large = [flow.add(task["say"], BIG), flow.add(task["other"], "say", BIG)]
    flow.add(task["other"], "join", [BIG], "!", after=[flow.add(task["join"], large)])
    assert outcome(app, flow) == BIG + "!"


def test_large_arguments_of_what_is_added(app: App) -> None:
    flow = Workflow()
    flow.map(app.tasks["say"], flow.add(app.tasks["say"], [BIG, BIG]))
    assert outcome(app, flow) == [BIG, BIG]


class Moody(FilePayloadStore):
    """A payload store that refuses so many writes."""

    refusals = 0

    def put(self, name: str, data: bytes) -> None:
        if self.refusals:
            self.refusals -= 1
            raise PayloadUnavailable("no answer")
        super().put(name, data)


def test_a_job_whose_additions_cannot_be_stored_now_is_put_off(tmp_path: Path) -> None:
    store, clock = Moody(tmp_path), FakeClock()
    app = make_app("memory://", offload_above=100, payloads=store, clock=clock)
    job = app.tasks["twice"].delay(BIG)
    with worker_for(app) as worker:
        store.refusals = 1
        worker.run_until_idle()
        record = job.record
        assert record is not None
        assert (record.state, record.deliveries) == (S.QUEUED, 0)
        worker.advance(10)
    assert job.get(timeout=10) == [BIG, BIG]
    app.close()


# -- errors ----------------------------------------------------------------------------------------


def test_a_skipped_job_says_which_one_failed_and_why(app: App) -> None:
    task = app.tasks
    flow = Workflow()
    bad = flow.add(task["fail"])
    flow.add(task["say"], flow.add(task["say"], bad))
    with pytest.raises(JobSkipped, match=r"\(fail\) failed: builtins.ValueError: no$") as caught:
        outcome(app, flow)
    assert isinstance(caught.value.__cause__, RemoteError)
    assert caught.value.culprit is not None
    assert app.result(caught.value.culprit).state is S.FAILED


def test_a_replacement_that_fails_is_the_reason(app: App) -> None:
    job = app.tasks["other"].delay("other", "fail")
    work(app)
    with pytest.raises(JobSkipped, match=r"\(fail\) failed: builtins.ValueError: no"):
        job.get(timeout=10)
    assert job.state is S.SKIPPED


def test_a_revoked_job_is_the_reason(app: App) -> None:
    flow = Workflow()
    first = flow.add(app.tasks["say"].call("a").options(eta=60), name="first")
    flow.add(app.tasks["say"], first)
    run = flow.submit()
    app.result(run.plan.nodes[0].id).revoke()
    with pytest.raises(JobSkipped, match=r"\(say\) was revoked$"):
        run.get(timeout=10)


def test_a_handler_that_nothing_called_says_so(app: App) -> None:
    flow = Workflow()
    flow.add(app.tasks["say"], "a")
    handler = flow.on_error(app.tasks["losses"])
    run = flow.submit()
    work(app)
    (job,) = [node.id for node in run.plan.nodes if node.name == handler.name]
    with pytest.raises(JobSkipped, match="runs if another one fails; none did"):
        app.result(job).get(timeout=10)


def test_a_handler_hears_of_a_replacement_that_failed(app: App) -> None:
    flow = Workflow()
    flow.add(app.tasks["other"], "fail")
    handler = flow.on_error(app.tasks["losses"])
    flow.returns(handler)
    assert outcome(app, flow) == ["SKIPPED: "]


class Simple(TransportWrapper):
    """A store without what workflows need to grow."""

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(durable=False, shared=False, workflows=False)


@pytest.mark.parametrize("name", ["instead", "grow"])
def test_a_store_where_workflows_cannot_grow_is_told_to_whoever_tries(name: str) -> None:
    app = make_app("memory://")
    app._transport = Simple(app.transport)
    job = app.tasks[name].delay(1 if name == "grow" else "ab")
    work(app)
    with pytest.raises(RemoteError, match="replaces or extends itself, which the store"):
        job.get(timeout=10)
    app.close()


def test_what_is_no_node(app: App) -> None:
    flow, say = Workflow(), app.tasks["say"]
    with pytest.raises(ConfigError, match="a node is a task with its arguments, a call or"):
        flow.add("say")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="arguments of 'say' stand twice"):
        flow.add(say.call("a"), "b")
    with pytest.raises(ConfigError, match="nested workflow 'inner' takes no arguments"):
        flow.add(Workflow("inner"), "b")


def test_finally_takes_a_task_as_add_does(app: App) -> None:
    flow = Workflow()
    flow.add(app.tasks["fail"])
    last = flow.finally_(app.tasks["say"], "over")
    run = flow.submit()
    work(app)
    assert run.states()[last.name] is S.SUCCEEDED


def test_the_ids_of_what_is_added_name_the_node(app: App) -> None:
    run = everything(app).submit()
    work(app)
    planned = {node.id: node.name for node in run.plan.nodes}
    added = [job.id for job in run.jobs() if job.id not in planned]
    assert {planned[origin_of(job_id)] for job_id in added} == {
        "instead",
        "other",
        "map say",
        "grow",
    }
    assert max(map(len, added)) == 53


def test_what_every_app_has_outlives_many_workers() -> None:
    """Maps and collections run no code of the user's."""
    app = App(Config(transport="memory://"))
    assert {app.tasks[name].policy.max_deliveries for name in (COLLECT, MAP)} == {20}
