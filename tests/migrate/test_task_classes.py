"""Task classes on the way to the engine's: cases that no page needs to show, and that it works."""

from types import ModuleType
from typing import Any

import pytest
from tests.migrate.tools import migrate

from taskmq import App, Config, JobState


def native(text: str, *only: str, unsafe: bool = False) -> str:
    """One file, moved, of which a second run leaves everything."""
    files = {"tasks.py": text}
    run = migrate(files, to="native", only=only, unsafe=unsafe)
    assert migrate(run.files, to="native", only=only, unsafe=unsafe).files == run.files
    return run.text


CLASS = "from celery import Task\n\n\nclass Mine(Task):\n"


def hook_of(body: str) -> str:
    """A method of a task class, moved; without the lines above it."""
    text = native(CLASS + body, "TMQ116")
    return text.split("class Mine(taskmq.Task):\n")[1]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "    def before_start(self, task_id, args, kwargs=None):\n"
            "        log(task_id, args, kwargs)\n",
            "    def before_start(self, ctx):\n        args, kwargs = ctx.arguments\n"
            "        log(ctx.id, args, kwargs)\n",
        ),
        (
            "    def on_success(self, value, id_, a, kw):\n        '''Tell.'''\n"
            "        log(value, kw)\n",
            "    def on_success(self, ctx, value):\n        '''Tell.'''\n"
            "        kw = ctx.arguments[1]\n        log(value, kw)\n",
        ),
        (
            "    def on_failure(self, exc: Exception, *args, **kwargs: Any):\n        log(exc)\n"
            "        super().on_failure(exc, *args, **kwargs)\n",
            "    def on_failure(self, ctx, exc: Exception):\n        log(exc)\n"
            "        super().on_failure(ctx, exc)\n",
        ),
        (
            "    def after_return(self, *args, **kwargs):\n        close()\n",
            "    def after_return(self, *args, **kwargs):\n        close()\n",
        ),
        (
            "    def after_return(self, status, retval, task_id, args, kwargs, einfo):\n"
            "        if status == 'RETRY':\n            return\n        ctx.close()\n",
            "    def after_return(self, context, status):\n"
            '        if status == "RETRYING":\n            return\n        ctx.close()\n',
        ),
        (
            "    def __call__(self, *args, **kwargs):\n        with app_context():\n"
            "            return self.run(*args, **kwargs)\n",
            "    def run(self, *args, **kwargs):\n        with app_context():\n"
            "            return super().run(*args, **kwargs)\n",
        ),
        (
            "    def on_failure(self, exc, task_id, args, kwargs, einfo):\n"
            "        log(einfo.traceback, str(einfo))\n",
            "    def on_failure(self, ctx, exc):\n"
            '        log("".join(format_exception(exc)), "".join(format_exception(exc)))\n',
        ),
        ("    abstract = True\n", "    pass\n"),
        (
            "    acks_late = False\n    track_started = True\n    soft_time_limit = 5\n",
            '    ack = "on_receipt"\n    timeout = 5\n',
        ),
    ],
)
def test_what_a_task_class_becomes(before: str, after: str) -> None:
    assert hook_of(before) == after


@pytest.mark.parametrize(
    "body",
    [
        "    def on_failure(self, exc, task_id, args, kwargs, einfo):\n        log(einfo)\n",
        "    def on_failure(self, *args, **kwargs):\n        log(args[1])\n",
        "    def on_failure(self, exc, *args, **kwargs):\n        log(kwargs)\n",
        "    def on_failure(self, exc, task_id, args):\n        log(exc)\n",
        "    def on_success(self, value, task_id, args, kwargs):\n        args = ()\n",
        "    def on_success(self, value, task_id, args, kwargs):\n"
        "        super().on_success(1, task_id, args, kwargs)\n",
        "    def after_return(self, status, retval, task_id, args, kwargs, einfo):\n"
        "        log(status)\n",
        "    def after_return(self, status, retval, task_id, args, kwargs, einfo):\n"
        "        log(retval)\n",
        "    def __call__(self, *args, **kwargs):\n        return 1\n",
        "    def apply_async(self, *args, **kwargs):\n        return 1\n",
        "    def __init__(self):\n        self.many = 1\n",
    ],
)
def test_methods_of_task_classes_that_are_left(body: str) -> None:
    text = hook_of(body)
    assert text.startswith("    # TODO(taskmq-migrate TMQ116)")
    assert text.endswith(body)


def test_on_retry_that_looks_at_the_exception_waits_for_unsafe() -> None:
    before = (
        CLASS + "    def on_retry(self, exc, task_id, args, kwargs, einfo):\n        log(exc)\n"
    )
    assert "task_id" in native(before, "TMQ116")
    text = native(before, "TMQ116", unsafe=True)
    assert text.endswith("    def on_retry(self, ctx, exc):\n        log(exc)\n")


def test_retries_of_a_base_and_of_the_decorator_are_one_policy() -> None:
    text = native(
        "from celery import Task, shared_task\n\n\nclass Mine(Task):\n    autoretry_for = ()\n\n\n"
        "@shared_task(base=Mine, max_retries=2)\ndef work(): ...\n",
        "TMQ110",
    )
    assert "# TODO(taskmq-migrate TMQ110): the base has options of retries too" in text
    text = native(
        "from celery import Task, shared_task\n\n\nclass Mine(Task):\n    max_retries = 5\n\n\n"
        "@shared_task(base=Mine, autoretry_for=(OSError,), max_retries=2)\ndef work(): ...\n",
    )
    assert "base=Mine, retry=Retry(max_attempts=3, " in text


def test_a_task_knows_the_members_of_its_base() -> None:
    base = "from celery import Task\n\n\nclass Mine(Task):\n    bulk = False\n"
    files = {
        "shop/base.py": base + "\n    def told(self):\n        return self.backend\n",
        "shop/tasks.py": "from celery import shared_task\nfrom shop.base import Mine\n\n\n"
        "@shared_task(base=Mine, bind=True)\ndef work(self):\n"
        "    return self.bulk, self.told(), self.other\n",
    }
    run = migrate(files, to="native", only=("TMQ112",))
    assert "# TODO(taskmq-migrate TMQ112): backend" in run.files["shop/base.py"]
    assert run.files["shop/tasks.py"].count("TODO") == 1
    assert "# TODO(taskmq-migrate TMQ112): other" in run.files["shop/tasks.py"]


def test_what_was_converted_runs_on_the_engine() -> None:
    text = native(
        "from celery import Task, shared_task\n\n\nclass Mine(Task):\n    abstract = True\n"
        "    seen = []\n\n"
        "    def __call__(self, *args, **kwargs):\n        self.seen.append('in')\n"
        "        return super().__call__(*args, **kwargs)\n\n"
        "    def before_start(self, task_id, args, kwargs):\n"
        "        self.seen.append(list(args))\n\n"
        "    def on_failure(self, exc, task_id, args, kwargs, einfo):\n"
        "        self.seen.append((type(exc).__name__, kwargs))\n\n"
        "    def after_return(self, status, retval, task_id, args, kwargs, einfo):\n"
        "        if status == 'FAILURE':\n            self.seen.append('over')\n\n\n"
        "@shared_task(base=Mine, name='divide')\ndef divide(x, y):\n    return x / y\n"
    )
    assert "celery" not in text
    module: Any = ModuleType("tasks")
    exec(compile(text, "tasks.py", "exec"), vars(module))  # noqa: S102  # what was written above
    app = App(Config(eager=True))
    app.include(module)
    assert module.divide.delay(1, y=0).state is JobState.FAILED
    assert module.Mine.seen == [[1], "in", ("ZeroDivisionError", {"y": 0}), "over"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "    max_retries = 2\n\n    autoretry_for = (OSError,)\n    retry_backoff = True\n",
            "    retry = Retry(max_attempts=3, retry_on=(OSError,))\n\n",
        ),
        (
            "    default_retry_delay: int = 5\n    x = 1\n",
            '    retry = Retry(max_attempts=4, backoff="fixed", base=5, jitter=False, '
            "retry_on=())\n    x = 1\n",
        ),
    ],
)
def test_what_a_class_says_of_retries_is_one_policy(before: str, after: str) -> None:
    text = native(CLASS + before, "TMQ116")
    assert text.endswith(f"class Mine(taskmq.Task):\n{after}")


def test_a_policy_that_several_classes_add_to_is_marked() -> None:
    more = "    max_retries = 2\n\n\nclass Other(Mine):\n    autoretry_for = ()\n"
    text = native(CLASS + more, "TMQ116")
    assert "    # TODO(taskmq-migrate TMQ116): autoretry_for: a class that it derives from" in text
    forever = native(CLASS + "    max_retries = None\n", "TMQ116")
    assert "TMQ116): max_retries: max_retries=None repeats for ever" in forever


def test_a_task_that_asks_for_retries_has_the_policy_of_its_base() -> None:
    text = native(
        CLASS
        + "    max_retries = 2\n\n\n"
        "@shared_task(base=Mine, bind=True)\ndef work(self):\n    raise self.retry()\n".replace(
            "@shared", "from celery import shared_task\n\n\n@shared"
        )
    )
    assert text.count("Retry(") == 1
    assert "@task(base=Mine, bind=True)" in text
