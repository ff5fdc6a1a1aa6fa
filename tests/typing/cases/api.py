"""What a type checker must know of the public API. Never run: read by mypy and pyright.

``# E: mypy-code | pyright-rule`` at the end of a line: both report an error there, of that kind.
Any other line must be without one.
"""

import datetime
from typing import Any

from typing_extensions import assert_type

from taskmq import (
    App,
    Call,
    Config,
    JobState,
    QueueConfig,
    Result,
    Retry,
    Task,
    TaskContext,
    current_app,
    current_task,
    task,
)
from taskmq.records import JobRecord

app = App(Config(transport="memory://"))


# -- functions -----------------------------------------------------------------------------------


@app.task
def add(x: int, y: int = 0) -> int:
    return x + y


@app.task(queue="email", retry=Retry(max_attempts=5), priority=3)
def send(to: str, *, subject: str | None = None) -> str:
    return to


@task
def loose(x: float) -> None: ...


@task(name="other", store_result=False)
def named(x: bytes) -> list[int]:
    return list(x)


@app.task(bind=True)
def bound(self: Task[..., Any], when: datetime.date) -> datetime.date:
    assert_type(self.request, TaskContext)
    return when


@task(bind=True)
def loose_bound(self: Task[..., Any], x: int) -> str:
    return str(x)


@app.task
async def fetch(url: str) -> int:
    return len(url)


@app.task(queue="slow")
async def fetch_slowly(url: str) -> int:
    return await fetch(url)


@task(bind=True)
async def loose_fetch(self: Task[..., Any], url: str) -> bytes:
    return url.encode()


assert_type(add(1), int)
assert_type(add(1, y=2), int)
assert_type(add.run(1), int)
add("1")  # E: arg-type | reportArgumentType
send()  # E: call-arg | reportCallIssue

assert_type(add.delay(1), Result[int])
assert_type(add.delay(1, 2).get(), int)
assert_type(add.delay(1, y=2).get(timeout=5), int)
assert_type(send.delay("x", subject="y").get(), str)
assert_type(loose.delay(1.5), Result[None])
assert_type(named.delay(b"x").get(), list[int])
add.delay("x")  # E: arg-type | reportArgumentType
add.delay()  # E: call-arg | reportCallIssue
add.delay(1, 2, 3)  # E: call-arg | reportCallIssue
add.delay(1, z=2)  # E: call-arg | reportCallIssue
send.delay("x", "y")  # E: call-arg | reportCallIssue
send.delay("x", subject=5)  # E: arg-type | reportArgumentType
assert_type(fetch.delay("x"), Result[int])
assert_type(fetch_slowly.delay("x").get(), int)
assert_type(fetch_slowly.submit("x", queue="q"), Result[int])
assert_type(loose_fetch.delay("x").get(), bytes)
fetch.delay(1)  # E: arg-type | reportArgumentType
loose.delay("x")  # E: arg-type | reportArgumentType
x: str = add.delay(1).get()  # E: assignment | reportAssignmentType


# -- bind drops the first parameter --------------------------------------------------------------

assert_type(bound.delay(datetime.date.today()), Result[datetime.date])
assert_type(bound(datetime.date.today()), datetime.date)
assert_type(loose_bound.delay(1).get(), str)
bound.delay(app, datetime.date.today())  # E: arg-type, call-arg | reportCallIssue
bound.delay("today")  # E: arg-type | reportArgumentType


# -- classes -------------------------------------------------------------------------------------


class Pay(Task[[str, int], bool]):
    queue = "money"
    retry = Retry(retry_on=(OSError,))

    def run(self, who: str, amount: int) -> bool:
        assert_type(self.request.attempt, int)
        return True

    def on_success(self, ctx: TaskContext, result: bool) -> None: ...
    def on_failure(self, ctx: TaskContext, error: BaseException) -> None: ...
    def after_return(self, ctx: TaskContext, state: JobState) -> None: ...


pay = app.register(Pay)
assert_type(pay, Pay)
assert_type(app.register(Pay()), Pay)
assert_type(pay.delay("a", 5), Result[bool])
assert_type(pay("a", 5), bool)
pay.delay("a", "5")  # E: arg-type | reportArgumentType
pay.delay(5)  # E: arg-type, call-arg | reportCallIssue
app.register(add)


class WrongResult(Task[[], int]):
    def run(self) -> str:  # E: override | reportIncompatibleMethodOverride
        return "x"


# -- submitting with options ---------------------------------------------------------------------

assert_type(add.submit(1, 2, queue="q", priority=3, key="k"), Result[int])
assert_type(add.submit(1, eta=5, expires=datetime.timedelta(hours=1)).get(), int)
assert_type(add.submit(1, eta=datetime.datetime.now(datetime.timezone.utc)), Result[int])
add.submit(1, priority="high")  # E: arg-type | reportArgumentType
add.submit(1, queue=5)  # E: arg-type | reportArgumentType
add.submit(1, eta="tomorrow")  # E: arg-type | reportArgumentType

assert_type(add.call(1), Call[int])
assert_type(add.call(1).options(queue="q"), Call[int])
assert_type(add.call(1).options(queue="q").submit(), Result[int])
assert_type(send.call("x").options(key="k").submit().get(), str)
add.call("x")  # E: arg-type | reportArgumentType

assert_type(add.submit_many([(1,), (2, 3), add.call(4)], queue="q"), list[Result[int]])
assert_type(app.submit(add.call(1)), Result[int])
assert_type(app.submit_many([add.call(1), add.call(2)]), list[Result[int]])
add.submit_many([send.call("x")])  # E: list-item | reportArgumentType


# -- asyncio -------------------------------------------------------------------------------------


async def main() -> None:
    assert_type(await add.adelay(1, y=2), Result[int])
    assert_type(await add.asubmit(1, queue="q"), Result[int])
    assert_type(await add.call(1).asubmit(), Result[int])
    assert_type(await app.asubmit(send.call("x")), Result[str])
    assert_type(await app.asubmit_many([add.call(1)]), list[Result[int]])
    result = await add.adelay(1)
    assert_type(await result.aget(timeout=1), int)
    assert_type(await result.await_finished(), JobState)
    assert_type(await fetch("x"), int)
    assert_type(await (await fetch.adelay("x")).aget(), int)
    assert_type(await loose_fetch("x"), bytes)
    await add.adelay("x")  # E: arg-type | reportArgumentType
    add.delay(1).get() + "x"  # E: operator | reportOperatorIssue


# -- results -------------------------------------------------------------------------------------


def total(results: list[Result[int]]) -> int:
    return sum(result.get() for result in results)


total(add.submit_many([(1,)]))
total([send.delay("x")])  # E: list-item | reportArgumentType
handle = add.delay(1)
assert_type(handle.id, str)
assert_type(handle.state, JobState)
assert_type(handle.record, JobRecord | None)
assert_type(handle.info, dict[str, Any])
assert_type(handle.created, bool)
assert_type(handle.wait(5), JobState)
assert_type(handle.revoke(), bool)
assert_type(app.result("J1"), Result[Any])


# -- values and contexts -------------------------------------------------------------------------

Retry(max_attempts=3, backoff="linear", base=0.5, retry_on=(OSError, ValueError))
Retry(backoff="quadratic")  # E: arg-type | reportArgumentType
Retry(max_attempts="3")  # E: arg-type | reportArgumentType
Retry(retry_on=OSError)  # E: arg-type | reportArgumentType
Retry(retries=3)  # E: call-arg | reportCallIssue
assert_type(Retry().delay_after(1, None), float | None)

Config(transport="memory://", queues={"email": QueueConfig(weight=2)}, pool="solo", prefetch=None)
Config(pool="plugin:gevent")
Config(pool=8)  # E: arg-type | reportArgumentType
Config(concurrency="8")  # E: arg-type | reportArgumentType
Config(concurency=8)  # E: call-arg | reportCallIssue
Config("memory://")  # E: call-arg | reportCallIssue
assert_type(Config().lease, float)
assert_type(Config().replace(lease=5), Config)
assert_type(Config.from_env(), Config)
Config().lease = 5  # E: misc | reportAttributeAccessIssue

assert_type(current_task(), TaskContext)
assert_type(current_app(), App)
assert_type(current_task().remaining(), float | None)
raise current_task().retry("busy", delay=1)
