"""Celery's API to the engine's: cases that no page needs to show, and that the result works."""

import textwrap
from types import ModuleType

import pytest
from tests.migrate.tools import migrate

from taskmq import App, JobState
from taskmq.testing import isolated, worker_for

SHARED = "from celery import shared_task\n\n\n"


def native(text: str, unsafe: bool = True, **others: str) -> str:
    files = {"tasks.py": textwrap.dedent(text).lstrip("\n")}
    files |= {f"{name}.py": textwrap.dedent(each).lstrip("\n") for name, each in others.items()}
    run = migrate(files, to="native", unsafe=unsafe)
    assert not run.result.failed
    again = migrate(run.files, to="native", unsafe=unsafe)
    assert again.files == run.files
    return run.files["tasks.py"]


def markers(text: str) -> list[str]:
    return [
        line.partition("TMQ")[2][:3]
        for line in text.splitlines()
        if "# TODO(taskmq-migrate" in line
    ]


@pytest.mark.parametrize(
    ("options", "policy"),
    [
        (
            "max_retries=2, default_retry_delay=5, autoretry_for=(OSError,)",
            'max_attempts=3, backoff="fixed", base=5, jitter=False, retry_on=(OSError,)',
        ),
        (
            "autoretry_for=[OSError], retry_backoff=True, retry_jitter=False",
            "max_attempts=4, jitter=False, retry_on=tuple([OSError])",
        ),
        (
            'autoretry_for=(OSError,), retry_kwargs={"max_retries": 1, "countdown": 900}',
            'max_attempts=2, backoff="fixed", base=900, max_delay=900, jitter=False, '
            "retry_on=(OSError,)",
        ),
        (
            "autoretry_for=(OSError,), dont_autoretry_for=(KeyError,), retry_backoff=3, "
            "retry_backoff_max=60, max_retries=LIMIT",
            "max_attempts=LIMIT + 1, base=3, max_delay=60, retry_on=(OSError,), "
            "give_up_on=(KeyError,)",
        ),
    ],
)
def test_retry_policies(options: str, policy: str) -> None:
    text = native(f"{SHARED}@shared_task({options})\ndef f(): ...\n")
    assert f"@task(retry=Retry({policy}))" in text


@pytest.mark.parametrize(
    "options",
    [
        "max_retries=None",
        "autoretry_for=(OSError,), retry_backoff=factor()",
        "autoretry_for=(OSError,), retry_kwargs=LATER",
        "base=Mine",
        "priority=3",
        'serializer="pickle"',
        "acks_late=LATE",
        "**options",
        "unheard_of=1",
    ],
)
def test_options_that_cannot_be_translated_keep_their_decorator(options: str) -> None:
    before = f"{SHARED}@shared_task({options})\ndef f(): ...\n"
    text = native(before)
    assert markers(text) == ["110"]
    assert (
        "".join(text.splitlines(keepends=True)[:3])
        + text.splitlines(keepends=True)[-2]
        + (text.splitlines(keepends=True)[-1])
        == before
    )


def test_a_task_that_only_asks_for_retries_gets_celerys_policy_for_them() -> None:
    text = native(
        f"{SHARED}@shared_task(bind=True)\ndef f(self, x):\n    return self.retry(countdown=x)\n"
    )
    assert (
        '@task(bind=True, retry=Retry(max_attempts=4, backoff="fixed", base=180, jitter=False, '
        "retry_on=()))" in text
    )
    assert "    raise self.request.retry(delay=x)\n" in text


def test_names_that_are_shadowed_or_mean_something_else_stay() -> None:
    text = """
        from celery import shared_task
        import other


        def shared(shared_task):
            @shared_task
            def inner(): ...


        class Queue:
            def apply_async(self): ...


        def f(self):
            self.retry()
            Queue().apply_async()
            other.chain(1, 2).delay()
        """
    assert native(text) == textwrap.dedent(text).lstrip("\n")


CANVASES = {
    "chain(a.s(1), b.s(2))()": ["flow.add(b, flow.add(a, 1), 2)"],
    "(a.s(1) | b.si(2)).delay()": ["flow.add(b, 2, after=flow.add(a, 1))"],
    "group(a.s(1), a.s(2)).apply_async()": ["[flow.add(a, 1), flow.add(a, 2)]"],
    "chord((a.s(i) for i in xs), b.s(k=1))()": ["flow.add(b, [flow.add(a, i) for i in xs], k=1)"],
    "chain(a.s(0), group(a.s(), b.s(2)), b.s(1)).delay()": [
        "step1 = flow.add(a, 0)",
        "flow.add(b, [flow.add(a, step1), flow.add(b, step1, 2)], 1)",
    ],
    "chain(a.s(1), b.s(2)).apply_async(queue='q', countdown=3)": [
        "flow.add(b, flow.add(a.call(1).options(queue='q', eta=3)), 2)"
    ],
    "chain([a.s(1).set(queue='q', countdown=3), b.s(2)])()": [
        "flow.add(b, flow.add(a.call(1).options(queue='q', eta=3)), 2)"
    ],
    "chord(chain(a.s(1), b.s(2)))(b.s(3))": ["flow.add(b, [flow.add(b, flow.add(a, 1), 2)], 3)"],
}
TASKS = f"{SHARED}@shared_task\ndef a(x): ...\n\n\n@shared_task\ndef b(x, y=0, k=0): ...\n"


@pytest.mark.parametrize("canvas", CANVASES)
def test_a_canvas_that_is_written_out(canvas: str) -> None:
    text = native(
        f"from celery import chain, chord, group\nfrom shop import a, b\n\n\n"
        f"def go(xs):\n    return {canvas}.id\n",
        shop=TASKS,
    )
    body = [line.strip() for line in text.partition("def go(xs):\n")[2].splitlines()]
    assert body == ["flow = Workflow()", *CANVASES[canvas], "return flow.submit().id"]


@pytest.mark.parametrize(
    "line",
    [
        "return group(a.s(1)).delay()",
        "return group([a.s(1), group(a.s(2), a.s(3))]).delay()",
        "return chain(*xs).delay()",
        "return chain(a.s(1), xs[0]).delay()",
        "return chain(a.s(1), b.s(2)).apply_async((3,), countdown=3)",
        "return chain(group(a.s(1), b.s(2)), b.s(2)).apply_async(countdown=3)",
        "return chain(xs).delay()",
        "c = chain(a.s(1), b.s(2)); c.delay()",
        "c = chain(a.s(1), b.s(2))",
        "ss = [a.s(1)]; go(ss); return group(ss)()",
        "return a.s(1).delay(2)",
        "return bool(xs) and chain(a.s(1), b.s(2)).delay()",
        "return chain(a.s(1), b.s(name=2)).delay()",
        "return group(a.s(1) | group(a.s(), b.s()) for x in xs).delay()",
        "return a.s(1)",
        "for x in xs: chain(a.s(1), b.s(2)).delay()",
    ],
)
def test_a_canvas_that_is_not_keeps_its_code(line: str) -> None:
    text = native(
        f"from celery import chain, chord, group\nfrom shop import a, b\n\n\n"
        f"def go(xs):\n    {line}\n",
        shop=TASKS,
    )
    assert markers(text) == ["130"]
    assert text.endswith(f"    {line}\n")


def test_a_group_of_unknown_size_at_the_end_waits_for_unsafe() -> None:
    text = "from celery import group\nfrom shop import a\n\nr = group(a.s(i) for i in xs).delay()\n"
    assert native(text, unsafe=False, shop=TASKS) == text
    assert "[flow.add(a, i) for i in xs]" in native(text, shop=TASKS)


def test_settings_that_cannot_be_translated_are_named() -> None:
    for setting in ("task_routes={}", 'task_serializer="pickle"', "made_up=1"):
        text = native(
            f'from celery import Celery\n\napp = Celery("x")\napp.conf.update({setting})\n'
        )
        assert markers(text) == ["100"]
        assert setting.partition("=")[0] in text.splitlines()[2]


def test_settings_after_a_condition_are_left_alone() -> None:
    text = native(
        """
        from celery import Celery

        app = Celery("x")
        if DEBUG:
            app.conf.task_always_eager = True
        """
    )
    assert markers(text) == ["100"]


def test_settings_of_a_module_are_passed_by_name() -> None:
    text = """
        from celery import Celery

        app = Celery("shop")
        app.config_from_object("config")
        """
    config = """
        import os

        broker_url = os.environ["BROKER"]
        task_ignore_result = True
        enable_utc = True
        """
    converted = native(text, config=config)
    assert "from config import broker_url, task_ignore_result\n" in converted
    assert (
        "app = App(Config(transport=broker_url, store_results=not task_ignore_result))\n"
        in converted
    )
    assert native(text, unsafe=False, config=config) == textwrap.dedent(text).lstrip("\n")
    lost = native(text, config=f"{config}task_routes = {{}}\n")
    assert markers(lost) == ["100"]
    old = native(text, config='BROKER_URL = "memory://"\nCELERY_ALWAYS_EAGER = True\n')
    assert "from config import broker_url, task_always_eager\n" in old
    assert "App(Config(transport=broker_url, eager=task_always_eager))\n" in old


def test_settings_of_django_are_passed_by_their_present_names() -> None:
    text = """
        from celery import Celery

        app = Celery("shop")
        app.config_from_object("django.conf:settings", namespace="CELERY")
        """
    settings = """
        CELERY_BROKER_URL = "memory://"
        CELERY_ALWAYS_EAGER = True
        CELERYD_CONCURRENCY = 2
        """
    converted = native(text, settings=settings)
    assert (
        "App(Config(transport=settings.CELERY_BROKER_URL, "
        "eager=settings.CELERY_TASK_ALWAYS_EAGER, "
        "concurrency=settings.CELERY_WORKER_CONCURRENCY), setup=django.setup)" in converted
    )


def test_periodic_tasks_that_are_added_by_a_receiver_are_schedules() -> None:
    text = native(
        """
        from celery import Celery
        from celery.schedules import crontab

        app = Celery("shop")


        @app.task
        def check(x=0, y=0): ...


        @app.on_after_configure.connect
        def set_up(sender, **kwargs):
            if True:  # kept
                sender.add_periodic_task(10.0, check.s(1, y=2), name="check", queue="q")


        app.add_periodic_task(crontab(minute=5), check.s())
        """
    )
    assert markers(text) == []
    assert "@app.on_after" not in text
    assert "    if True:  # kept\n" in text
    module = ModuleType("tasks")
    exec(compile(text, "tasks.py", "exec"), vars(module))  # noqa: S102  # what was written above
    assert [each.name for each in module.app.schedules] == ["tasks.check", "check"]
    assert [each.args for each in module.app.schedules] == [(), (1,)]
    assert module.app.schedules[1].kwargs == {"y": 2}


@pytest.mark.parametrize(
    "body",
    [
        "sender.add_periodic_task(interval(), check.s())",
        "sender.add_periodic_task(10, later)",
        "sender.add_periodic_task(10, check.s(), priority=3)",
        "sender.conf.timezone = 'UTC'",
        "use(sender); sender.add_periodic_task(10, check.s())",
        "pass",
    ],
)
def test_receivers_that_do_something_else_are_marked(body: str) -> None:
    text = native(
        f"""from celery import Celery

app = Celery("shop")


@app.task
def check(): ...


@app.on_after_configure.connect
def set_up(sender, **kwargs):
    {body}
"""
    )
    assert markers(text) == ["161"]


PROGRAM = """
from celery import Celery, chain, chord
from celery.exceptions import Reject
from celery.utils.log import get_task_logger

logger = get_task_logger(__name__)
app = Celery("shop", broker="memory://", backend="cache+memory://")
app.conf.task_acks_late = True
seen = []


@app.task
def add(x, y):
    return x + y


@app.task(name="shop.total", ignore_result=False)
def total(numbers, factor=1):
    return sum(numbers) * factor


@app.task(bind=True, max_retries=3, default_retry_delay=0)
def flaky(self, times):
    seen.append(self.request.retries)
    if self.request.retries < times:
        raise self.retry(countdown=0)
    return self.request.retries


@app.task(autoretry_for=(OSError,), max_retries=1, default_retry_delay=0)
def broken():
    seen.append("broken")
    raise OSError("no")


@app.task
def refuse():
    raise Reject("not this", requeue=False)


def run_chain():
    return chain(add.s(1, 2), add.s(10)).delay()


def run_chord(numbers):
    return chord([add.s(n, n) for n in numbers])(total.s(factor=2))


def run_one():
    return add.apply_async((4,), {"y": 5}, countdown=0)
"""


@pytest.fixture
def program() -> ModuleType:
    """The program above, converted and imported."""
    text = native(PROGRAM.lstrip("\n"))
    assert markers(text) == []
    assert "celery" not in text
    module = ModuleType("shop_native")
    exec(compile(text, "shop_native.py", "exec"), vars(module))  # noqa: S102  # what was written above
    return module


def test_the_converted_program_does_what_it_did(program: ModuleType) -> None:
    app: App = program.app
    with isolated(app), worker_for(app) as worker:
        handles = [program.run_chain(), program.run_chord([1, 2, 3]), program.run_one()]
        flaky, broken, refused = (
            program.flaky.delay(2),
            program.broken.delay(),
            program.refuse.delay(),
        )
        worker.run_until_idle(timeout=10)
        assert [each.get(timeout=0) for each in handles] == [13, 24, 9]
        assert flaky.get(timeout=0) == 2
        assert broken.state == JobState.FAILED
        assert refused.info["dead_reason"] == "not this"
    assert program.seen == [0, "broken", 1, "broken", 2]


LAUNCHES = {
    "a.s(1).delay()": ["a.call(1).submit()"],
    "a.si(1).set(queue='q').apply_async(countdown=3)": [
        "a.call(1).options(queue='q', eta=3).submit()"
    ],
    "group(a.s(x) for x in xs)()": [
        "flow = Workflow()",
        "[flow.add(a, x) for x in xs]",
        "if flow.nodes:",
        "flow.submit()",
    ],
    "s = [a.s(x) for x in xs]; s.append(a.s(0)); return chord(s)(b.s(2))": [
        "s = [a.call(x) for x in xs]",
        "s.append(a.call(0))",
        "flow = Workflow()",
        "flow.add(b, [flow.add(call) for call in s], 2)",
        "return flow.submit()",
    ],
    "s = []; s += [a.s(1)]; group(*s).apply_async(queue='q')": [
        "s = []",
        "s += [a.call(1)]",
        "flow = Workflow()",
        "[flow.add(call.options(queue='q')) for call in s]",
        "if flow.nodes:",
        "flow.submit()",
    ],
    "c = chain(a.s(1), b.s(2)); return c.apply_async()": [
        "c = Workflow()",
        "c.add(b, c.add(a, 1), 2)",
        "return c.submit()",
    ],
    "c = a.s(1); c.apply_async(queue='q')": ["c = a.call(1).options(queue='q')", "c.submit()"],
    "done = b.s(2); chord(a.s(x) for x in xs)(done)": [
        "flow = Workflow()",
        "flow.add(b, [flow.add(a, x) for x in xs], 2)",
        "flow.submit()",
    ],
}


@pytest.mark.parametrize("lines", LAUNCHES)
def test_where_a_canvas_is_submitted(lines: str) -> None:
    body = lines.replace("; ", "\n    ")
    text = native(
        f"from celery import chain, chord, group\nfrom shop import a, b\n\n\n"
        f"def go(xs):\n    {body}\n",
        shop=TASKS,
    )
    assert [line.strip() for line in text.partition("def go(xs):\n")[2].splitlines()] == LAUNCHES[
        lines
    ]


def test_a_task_that_replaces_itself_by_a_canvas() -> None:
    text = native(
        f"""{SHARED}@shared_task
def a(x): ...


@shared_task(bind=True)
def whole(self, x):
    if x:
        raise self.replace(a.s(1) | a.s())
    return self.replace(a.s(0))
"""
    )
    body = [line.strip() for line in text.partition("def whole(self, x):\n")[2].splitlines()]
    assert body == [
        "if x:",
        "flow = Workflow()",
        "flow.add(a, flow.add(a, 1))",
        "return self.request.replace(flow)",
        "return self.request.replace(a.call(0))",
    ]


@pytest.mark.parametrize(
    ("broker", "given", "converted"),
    [
        ("redis://db", "7", "-7"),
        ("redis://db", "LOW", "-LOW"),
        ("redis://db", "0", "0"),
        ("amqp://host", "7", "7"),
    ],
)
def test_priorities_go_the_engines_way(broker: str, given: str, converted: str) -> None:
    text = native(
        f"from celery import Celery\n\napp = Celery(broker={broker!r})\n\n\n"
        f"@app.task(priority={given})\ndef f(): ...\n\n\nf.apply_async(priority={given})\n"
    )
    assert f"@app.task(priority={converted})" in text
    assert f"f.submit(priority={converted})" in text


@pytest.mark.parametrize("broker", ["sqs://", "amqp://host"])
def test_priorities_that_mean_nothing_here_are_marked(broker: str) -> None:
    text = native(
        f"from celery import Celery\n\napp = Celery(broker={broker!r})\n\n\n"
        "@app.task(priority=10)\ndef f(): ...\n"
    )
    assert "110" in markers(text)


def test_a_result_without_an_app_is_asked_of_the_projects_own() -> None:
    text = "from celery.result import AsyncResult\n\nx = AsyncResult(i).get()\n"
    app = 'from celery import Celery\n\nqueue = Celery("shop")\n'
    assert native(text, shop=app) == "from shop import queue\n\nx = queue.result(i).get()\n"
    assert native(text, unsafe=False, shop=f"import views\n{app}") == text
    assert markers(native(text, shop=app, other=app)) == ["140"]


@pytest.mark.parametrize(
    ("broker", "after"),
    [("redis://db", "f.submit()"), ("amqp://host", "f.submit(expires=30)")],
)
def test_how_long_a_message_is_good(broker: str, after: str) -> None:
    text = native(
        f"from celery import Celery\n\napp = Celery(broker={broker!r})\n\n\n"
        "@app.task\ndef f(): ...\n\n\nf.apply_async(expiration=30)\n"
    )
    assert text.endswith(f"{after}\n")


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        (
            "@override_settings(CELERY_TASK_ALWAYS_EAGER=True, DEBUG=True)\ndef test(): ...\n",
            "@eager(queue)\n@override_settings(DEBUG=True)\ndef test(): ...\n",
        ),
        (
            "@override_settings(CELERY_ALWAYS_EAGER=True, CELERY_EAGER_PROPAGATES=True)\n"
            "def test(): ...\n",
            "@eager(queue)\ndef test(): ...\n",
        ),
        ("@override_settings(CELERY_ALWAYS_EAGER=False)\ndef test(): ...\n", ""),
        ("@override_settings(CELERY_ALWAYS_EAGER=True)\nclass Test: ...\n", ""),
        ("def test(celery_worker): ...\n", ""),
        ("@fixture\ndef celery_config(): ...\n", ""),
        ("@override_settings(DEBUG=True)\ndef celery_worker(): ...\n", ""),
    ],
)
def test_jobs_of_tests_run_at_once(lines: str, after: str) -> None:
    header = "from django.test import override_settings\n"
    text = f"{header}\n\n{lines}"
    app = 'from celery import Celery\n\nqueue = Celery("shop")\n'
    run = migrate({"test_it.py": text, "shop.py": app}, to="native", only=("TMQ170",), unsafe=True)
    if after:
        assert run.files["test_it.py"].endswith(f"\n\n\n{after}")
    else:
        assert markers(run.files["test_it.py"]) == ["170"]


def test_schedules_of_a_settings_module_go_to_the_app() -> None:
    app = """
        from celery import Celery

        app = Celery("shop")
        app.config_from_object("django.conf:settings", namespace="CELERY")
        """
    settings = """
        from celery.schedules import crontab

        CELERY_TIMEZONE = "Europe/Vienna"
        CELERYBEAT_SCHEDULE = {"a": {"task": "shop.a", "schedule": crontab(hour=7)}}
        """
    converted = native(app, settings=settings)
    assert converted.endswith(
        "app = App(Config(timezone=settings.CELERY_TIMEZONE), setup=django.setup)\n"
        "app.schedule(*settings.CELERY_BEAT_SCHEDULE)\n"
    )
    files = {"settings.py": textwrap.dedent(settings).lstrip(), "shop.py": textwrap.dedent(app)}
    assert migrate(files, to="native", unsafe=True).files["settings.py"] == (
        "from taskmq.schedule import cron\n\n"
        'CELERY_TIMEZONE = "Europe/Vienna"\n'
        "CELERY_BEAT_SCHEDULE = [\n"
        '    cron("shop.a", "* 7 * * *", tz="Europe/Vienna", name="a"),\n]\n'
    )
    assert migrate(files, to="native").files["settings.py"].endswith("crontab(hour=7)}}\n")


@pytest.mark.parametrize("more", ["CELERY_TASK_ROUTES = {}\n", "CELERY_BEAT_SCHEDULE['b'] = 1\n"])
def test_schedules_of_settings_that_are_not_all_passed_stay(more: str) -> None:
    app = (
        "from celery import Celery\n\napp = Celery()\n"
        'app.config_from_object("django.conf:settings", namespace="CELERY")\n'
    )
    text = f'CELERY_BEAT_SCHEDULE = {{"a": {{"task": "shop.a", "schedule": 3}}}}\n{more}'
    files = {"settings.py": text, "shop.py": app}
    assert markers(migrate(files, to="native", unsafe=True).files["settings.py"]) == ["160"]


def test_modules_of_one_name_offer_their_tasks_each() -> None:
    task = "from celery import shared_task\n\n\n@shared_task\ndef {}(): ...\n"
    use = "from . import tasks\n\ntasks.{}.apply_async(countdown=3)\n"
    files = {"shop/__init__.py": ""}
    for part, name in (("mail", "send"), ("orders", "pay")):
        files[f"shop/{part}/__init__.py"] = ""
        files[f"shop/{part}/tasks.py"] = task.format(name)
        files[f"shop/{part}/views.py"] = use.format(name)
    run = migrate(files, to="native", only=("TMQ120",))
    assert "send.submit(" in run.files["shop/mail/views.py"]
    assert "pay.submit(" in run.files["shop/orders/views.py"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("if app.current_task:\n    pass\n", "if current_task(None):\n    pass\n"),
        (
            "x = app.current_task and app.current_task.request.id\n",
            "x = current_task(None) and current_task().id\n",
        ),
        (
            "x = 1 if y or not app.current_task else 2\n",
            "x = 1 if y or not current_task(None) else 2\n",
        ),
        ("while y and app.current_task: ...\n", "while y and current_task(None): ...\n"),
        ("x = y and app.current_task\n", ""),
        ("x = app.current_task or y\n", ""),
        ("x = app.current_task is None\n", ""),
        ("x = app.current_task.max_retries\n", ""),
    ],
)
def test_whether_a_task_is_running(before: str, after: str) -> None:
    head = "from celery import Celery\n\napp = Celery()\n"
    text = migrate({"shop.py": head + before}, to="native", only=("TMQ112",)).text
    if after:
        assert text.startswith("from celery import Celery\nfrom taskmq import current_task\n")
        assert text.endswith(f"\napp = Celery()\n{after}")
    else:
        assert text.endswith(before)
        assert "TODO(taskmq-migrate TMQ112): current_task is a function" in text


def test_called_directly_is_outside_of_a_job() -> None:
    before = (
        "from celery import shared_task\n\n\n@shared_task(bind=True)\ndef work(self):\n"
        "    return not self.request.called_directly\n"
    )
    text = migrate({"tasks.py": before}, to="native", only=("TMQ112",)).text
    assert text.endswith("    return not (current_task(None) is None)\n")


@pytest.mark.parametrize(
    ("app", "converted"),
    [
        ("import os\nfrom celery import Celery\n\napp = Celery()\n", True),
        ("from celery import Celery\nfrom . import views\n\napp = Celery()\n", False),
        ("from celery import Celery\nfrom shop.x import *\n\napp = Celery()\n", False),
        ("from celery import Celery\n\n\ndef f():\n    import shop\n\n\napp = Celery()\n", True),
    ],
)
def test_an_app_is_imported_where_that_makes_no_circle(app: str, converted: bool) -> None:
    view = "from celery.result import AsyncResult\n\nx = AsyncResult(y).get()\n"
    files = {"shop/__init__.py": "", "shop/app.py": app, "shop/views.py": view}
    run = migrate(files, to="native", only=("TMQ140",))
    assert ("app.result(y)" in run.files["shop/views.py"]) is converted


def test_an_app_in_a_template_of_projects_is_not_the_projects_own() -> None:
    view = "from celery.result import AsyncResult\n\nx = AsyncResult(y).get()\n"
    app = "from celery import Celery\n\napp = Celery()\n"
    files = {"shop/__init__.py": "", "shop/project_template/app.py": app, "shop/views.py": view}
    run = migrate(files, to="native", only=("TMQ140",))
    assert "and this names no app" in run.files["shop/views.py"]


def test_comments_in_what_is_replaced_go_above_the_statement() -> None:
    before = (
        "from celery import shared_task\n\n\nclass A:\n    @staticmethod\n    @shared_task(\n"
        "        # two tries\n        max_retries=1,\n        acks_late=True,  # safe\n    )\n"
        "    def work(): ...\n\n\ndef go():\n    if A:\n"
        "        send.apply_async(  # soon\n            args=(1,),  # one\n        )  # done\n\n\n"
        "@shared_task\ndef send(x): ...\n"
    )
    run = migrate({"tasks.py": before}, to="native", only=("TMQ110", "TMQ120"))
    assert run.text == (
        "from taskmq import Retry, task\n\n\nclass A:\n    # two tries\n    # safe\n"
        '    @staticmethod\n    @task(retry=Retry(max_attempts=2, backoff="fixed", base=180, '
        "jitter=False, retry_on=()))\n"
        "    def work(): ...\n\n\ndef go():\n    if A:\n"
        "        # soon\n        # one\n        send.submit(1)  # done\n\n\n"
        "@task\ndef send(x): ...\n"
    )
    assert migrate(run.files, to="native", only=("TMQ110", "TMQ120")).files == run.files
