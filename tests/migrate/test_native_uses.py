"""To the native API: what reads settings, builds a canvas in a test, and runs tasks at once."""

from tests.migrate.tools import migrate

APP = 'from celery import Celery\n\napp = Celery("shop", broker="memory://")\n'
TASKS = "from celery import shared_task\n\n\n@shared_task\ndef add(x, y): ...\n"


def native(path: str, text: str) -> str:
    """One file of a project that has an app and a task."""
    files = {"shop/app.py": APP, "shop/tasks.py": TASKS, path: text}
    return migrate(files, to="native", unsafe=True).files[path]


def test_a_pool_is_compared_with_its_own_name() -> None:
    text = 'from shop.app import app\n\nforks = app.conf["worker_pool"] == "prefork"\n'
    assert 'forks = app.config.pool == "processes"\n' in native("shop/pools.py", text)


def test_a_setting_that_is_changed_later_is_marked() -> None:
    text = native("conftest.py", "from shop.app import app\n\napp.conf.task_always_eager = True\n")
    assert "TODO(taskmq-migrate TMQ101): with taskmq.testing.eager(app)" in text
    assert "app.conf.task_always_eager = True" in text


def test_a_factory_may_set_what_the_app_is_made_with() -> None:
    text = (
        "from celery import Celery\n\n\ndef make(url):\n"
        '    app = Celery("shop")\n    app.conf.update(broker_url=url)\n    return app\n'
    )
    made = migrate({"app.py": text}, to="native", unsafe=True).text
    assert "    app = App(Config(transport=url))\n    return app\n" in made


def test_a_setting_under_a_condition_is_marked() -> None:
    text = (
        'from celery import Celery\n\napp = Celery("shop")\nif debug:\n'
        "    app.conf.task_always_eager = True\n"
    )
    made = migrate({"app.py": text}, to="native", unsafe=True)
    assert made.messages() == ["TMQ100 marked"]


def test_a_class_of_shared_tasks_is_not_given_to_the_app() -> None:
    text = (
        "from celery import Celery, Task, shared_task\n\n\nclass Base(Task): ...\n\n\n"
        'app = Celery("shop", task_cls=Base)\n\n\n@shared_task\ndef add(): ...\n'
    )
    assert "TMQ100): task_cls: tasks of @shared_task" in migrate({"app.py": text}, to="native").text


def test_a_canvas_in_an_assertion_is_built_before_it() -> None:
    text = (
        "from celery import chain\nfrom shop.tasks import add\n\n\ndef test_sum():\n"
        "    assert [6] == list(chain(add.s(1, 2), add.s(3))().get())\n"
        "    assert ready() and chain(add.s(1, 2), add.s(3))().get()\n"
    )
    made = native("test_sum.py", text)
    assert (
        "    flow = Workflow()\n    flow.add(add, flow.add(add, 1, 2), 3)\n"
        "    assert [6] == list(flow.submit().get())\n" in made
    )
    assert "TMQ130): a canvas within a larger expression" in made
    assert "assert ready() and chain(" in made


def test_apply_outside_of_tests_is_marked() -> None:
    text = native("view.py", "from shop.tasks import add\n\n\ndef view():\n    add.apply((1, 2))\n")
    assert "TMQ170): apply: call the task to run it here and now" in text


def test_fields_of_entries_that_are_added_later_join_them() -> None:
    settings = (
        'beat_schedule = {"a": {"task": "shop.a", "schedule": 5}}\n'
        'beat_schedule["a"]["args"] = (1,)\n'
        'beat_schedule["b"] = {"task": "shop.b", "schedule": 7}\n'
    )
    app = 'from celery import Celery\n\napp = Celery("shop", config_source="shop.config")\n'
    made = migrate({"shop/config.py": settings, "shop/app.py": app}, to="native", unsafe=True).files
    assert made["shop/config.py"] == (
        "from taskmq.schedule import every\n\nbeat_schedule = [\n"
        '    every("shop.a", seconds=5, name="a", args=(1,)),\n'
        '    every("shop.b", seconds=7, name="b"),\n]\n'
    )
    assert made["shop/app.py"].endswith("app = App()\napp.schedule(*beat_schedule)\n")


def test_entries_that_are_changed_under_a_condition_are_marked() -> None:
    settings = (
        'beat_schedule = {"a": {"task": "shop.a", "schedule": 5}}\n'
        'if debug:\n    beat_schedule["a"]["args"] = (1,)\n'
    )
    app = 'from celery import Celery\n\napp = Celery("shop", config_source="shop.config")\n'
    made = migrate({"shop/config.py": settings, "shop/app.py": app}, to="native", unsafe=True).files
    assert "TMQ160): the entries are changed later" in made["shop/config.py"]


def test_what_is_required_brings_the_engine() -> None:
    run = migrate({"requirements.txt": "celery[redis]>=5\n", "app.py": APP}, to="native")
    assert run.files["requirements.txt"] == "taskmq-celery[redis]>=0.2,<0.3\n"
