"""Routes on the way to the engine: ``queue=`` at each task, where all of them can be read."""

import pytest
from tests.migrate.tools import migrate

TASKS = (
    "from celery import shared_task\n\n\n@shared_task\ndef send(to): ...\n\n\n"
    '@shared_task(name="pay")\ndef charge(order): ...\n\n\n'
    '@shared_task(queue="mine")\ndef keep(): ...\n'
)


def queues(config: str, tasks: str = TASKS) -> list[str]:
    """The decorators of the tasks in ``shop/mails.py``, moved."""
    files = {"celeryconfig.py": config, "shop/mails.py": tasks}
    run = migrate(files, to="native", only=("TMQ110",))
    assert migrate(run.files, to="native", only=("TMQ110",)).files == run.files
    return [line for line in run.files["shop/mails.py"].splitlines() if line.startswith("@")]


@pytest.mark.parametrize(
    ("routes", "first", "second"),
    [
        ('{"shop.mails.send": {"queue": "out"}}', '@task(queue="out")', '@task(name="pay")'),
        ('{"shop.*": {"queue": "out"}}', '@task(queue="out")', '@task(name="pay")'),
        (
            '{"*.send": {"queue": "out"}, "p*": {"queue": "money"}}',
            '@task(queue="out")',
            '@task(name="pay", queue="money")',
        ),
        (
            '{"p*": {"queue": "rest"}, "pay": dict(queue="money")}',
            "@task",
            '@task(name="pay", queue="money")',
        ),
    ],
)
def test_routes_become_queues_of_tasks(routes: str, first: str, second: str) -> None:
    for name in ("task_routes", "CELERY_ROUTES"):
        assert queues(f"{name} = {routes}\n") == [first, second, '@task(queue="mine")']


@pytest.mark.parametrize(
    "routes",
    [
        '{"shop.mails.send": {"queue": "out", "routing_key": "x"}}',
        '{"shop.mails.send": {"queue": OUT}}',
        '{"shop.mails.send": "out"}',
        '{"shop.mails.send": {"queue": "out"}, "elsewhere.task": {"queue": "far"}}',
        '{"shop.mails.send": {"queue": "out"}, **MORE}',
        "[route]",
    ],
)
def test_routes_that_cannot_be_read_as_a_whole_are_left(routes: str) -> None:
    assert queues(f"task_routes = {routes}\n")[0] == "@task"


def test_an_app_without_routes_is_what_remains_of_one_with_routes() -> None:
    files = {
        "shop/app.py": 'from celery import Celery\n\napp = Celery("shop", broker="redis://db")\n'
        'app.conf.update({"task_routes": {"shop.app.add": {"queue": "sums"}}})\n'
        'app.conf["worker_concurrency"] = 2\n\n\n'
        "@app.task\ndef add(x, y): ...\n"
    }
    run = migrate(files, to="native", only=("TMQ100", "TMQ110"))
    assert run.files["shop/app.py"] == (
        'from taskmq import App, Config\n\napp = App(Config(transport="redis://db", '
        'concurrency=2))\n\n\n@app.task(queue="sums")\ndef add(x, y): ...\n'
    )
