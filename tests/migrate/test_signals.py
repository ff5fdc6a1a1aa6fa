"""Handlers of signals on the way to hooks: what stays, and that a hook is called."""

from types import ModuleType

import pytest
from tests.migrate.tools import migrate

from taskmq import App
from taskmq.testing import isolated, worker_for

APP = "from celery import Celery, signals\n\napp = Celery('shop')\n\n\n"
CALLED = """from celery import Celery
from celery.signals import worker_init, worker_process_init, worker_process_shutdown
from celery.signals import worker_ready, worker_shutdown

app = Celery("shop")
called = []


@worker_init.connect
def start(sender=None, conf=None, instance=None, **kwargs):
    called.append("start")


@worker_ready.connect(weak=False)
def ready(sender, **_):
    called.append("ready")


@worker_process_init.connect
def child(**_):
    called.append("child")


@worker_process_shutdown.connect
def child_gone(*args, **kwargs):
    called.append("child gone")


@worker_shutdown.connect(dispatch_uid="stop")
def stop(*, sender, **_):
    called.append("stop")
"""


def native(text: str) -> str:
    """One file, moved, of which a second run leaves everything."""
    run = migrate({"shop.py": text}, to="native")
    assert migrate(run.files, to="native").files == run.files
    return run.text


def test_hooks_are_called_at_their_moments() -> None:
    text = native(CALLED)
    assert "celery" not in text
    module = ModuleType("shop")
    exec(compile(text, "shop.py", "exec"), vars(module))  # noqa: S102  # what was written above
    app: App = module.app
    with isolated(app), worker_for(app) as worker:
        worker.run_until_idle()
    assert module.called == ["start", "child", "ready", "child gone", "stop"]


@pytest.mark.parametrize(
    "handler",
    [
        "@signals.worker_ready.connect\ndef tell(sender, **_):\n    print(sender)\n",
        "@signals.worker_ready.connect\ndef tell(**kwargs):\n    print(kwargs)\n",
        "@signals.worker_ready.connect\ndef tell(**kwargs):\n    print(locals())\n",
        "@signals.worker_ready.connect(sender='w1')\ndef tell(**_): ...\n",
        "@signals.task_success.connect\ndef tell(**_): ...\n",
        "@signals.worker_ready.connect\nasync def tell(**_): ...\n",
        "if app:\n    @signals.worker_ready.connect\n    def tell(**_): ...\n",
        "TellHook = 1\n\n\n@signals.worker_ready.connect\ndef tell(**_): ...\n",
    ],
)
def test_other_handlers_stay(handler: str) -> None:
    text = native(APP + handler)
    assert text.endswith(handler)
    assert "TODO(taskmq-migrate TMQ190): celery.signals: WorkerHook" in text


def test_a_module_without_the_app_keeps_its_handlers() -> None:
    handler = "@worker_ready.connect\ndef tell(**_): ...\n\n\nfrom celery import current_app\n"
    text = native(f"from celery.signals import worker_ready\n\n\n{handler}")
    assert "@worker_ready.connect\ndef tell(**_): ...\n" in text


def test_decorators_and_lines_around_stay() -> None:
    before = (
        APP
        + "x = 1\n\n\n@once\n@signals.worker_ready.connect\n@quick\ndef tell_all(**_):\r\n    ...\n"
    )
    text = native(before.replace("\r", ""))
    assert "@once\n@quick\ndef tell_all(**_):\n    ...\n\n\nclass TellAllHook(WorkerHook):" in text
