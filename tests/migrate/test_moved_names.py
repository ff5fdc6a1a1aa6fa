"""Names of old Celery, however they are imported, aliased, shadowed or re-exported."""

import pytest
from tests.migrate.tools import migrate, shim


def moved(text: str, path: str = "tasks.py") -> str:
    return shim(text, path, only=("TMQ020",))


CASES = [
    # the import of a whole module that moved
    (
        "from celery.utils.encoding import (\n    safe_str,  # why\n    safe_repr,\n)\n",
        "from kombu.utils.encoding import (\n    safe_str,  # why\n    safe_repr,\n)\n",
    ),
    # names that stay names
    (
        "from celery.task import Task, group as g, chord\n\n\nclass A(Task): ...\n",
        "from celery import Task\nfrom celery import group as g\nfrom celery import chord\n\n\n"
        "class A(Task): ...\n",
    ),
    # attributes of modules
    (
        "import celery.task\n\n\n@celery.task.task\ndef f(): ...\n",
        "import celery\nfrom celery import shared_task\n\n\n@shared_task\ndef f(): ...\n",
    ),
    (
        "import celery.task as t\n\n\n@t.task(bind=True)\ndef f(self): ...\n",
        "from celery import shared_task\n\n\n@shared_task(bind=True)\ndef f(self): ...\n",
    ),
    (
        "from celery import task\n\n\n@task()\ndef f(): ...\n\n\nclass A(task.Task): ...\n",
        "from celery import Task, shared_task\n\n\n@shared_task()\ndef f(): ...\n\n\n"
        "class A(Task): ...\n",
    ),
    # an alias
    (
        "from celery.task import task as job\n\n\n@job\ndef f(): ...\n",
        "from celery import shared_task as job\n\n\n@job\ndef f(): ...\n",
    ),
    # shadowed: a parameter, a local variable
    (
        "from celery.task import task\n\n\n@task\ndef f(): ...\n\n\n"
        "def g(task):\n    task.delay()\n",
        "from celery import shared_task\n\n\n@shared_task\ndef f(): ...\n\n\n"
        "def g(task):\n    task.delay()\n",
    ),
    # the new name is taken
    (
        "from celery.task import task\nfrom mine import shared_task\n\n\n@task\ndef f(): ...\n",
        "from celery import shared_task as celery_shared_task\nfrom mine import shared_task\n\n\n"
        "@celery_shared_task\ndef f(): ...\n",
    ),
    # a conditional import
    (
        "try:\n    from celery.task import task\nexcept ImportError:\n    task = None\n",
        "try:\n    from celery import shared_task as task\nexcept ImportError:\n    task = None\n",
    ),
    # exported
    (
        "from celery.task import task\n\n__all__ = ['task']\n",
        "from celery import shared_task as task\n\n__all__ = ['task']\n",
    ),
    # builtins
    (
        "from kombu.five import range, text_t\n\nx = [text_t(i) for i in range(3)]\n",
        "\nx = [str(i) for i in range(3)]\n",
    ),
    # comments, strings and own names stay
    ("# from celery.task import task\nx = 'celery.task.task'\n", None),
    ("from celerytask import task\n\n\n@task\ndef f(): ...\n", None),
    ("from mine.celery.task import task\n\n\n@task\ndef f(): ...\n", None),
    ("def task(f):\n    return f\n\n\n@task\ndef f(): ...  # celery.task\n", None),
]


@pytest.mark.parametrize(("before", "after"), CASES)
def test_names_are_followed(before: str, after: str | None) -> None:
    expected = before if after is None else after
    assert moved(before) == expected
    assert moved(expected) == expected


def test_a_name_is_followed_through_a_module_of_the_project() -> None:
    run = migrate(
        {
            "shop/__init__.py": "",
            "shop/compat.py": "from celery.task import task\n",
            "shop/tasks.py": "from .compat import task\n\n\n@task\ndef f(): ...\n",
        },
        only=("TMQ020",),
    )
    assert run.files["shop/compat.py"] == "from celery import shared_task as task\n"
    assert run.files["shop/tasks.py"] == "from .compat import task\n\n\n@task\ndef f(): ...\n"


def test_a_module_called_celery_is_not_the_package() -> None:
    run = migrate(
        {
            "shop/__init__.py": "",
            "shop/celery.py": "from celery import Celery\n\napp = Celery()\n",
            "shop/tasks.py": "from celery import current_app\n\n"
            "current_app.conf.CELERYD_POOL = 'solo'\n",
        },
        only=("TMQ031",),
    )
    assert "current_app.conf.worker_pool = 'solo'" in run.files["shop/tasks.py"]


def test_periodic_tasks_wait_for_unsafe() -> None:
    text = "from celery.task import periodic_task\n\n\n@periodic_task(run_every=9)\ndef f(): ...\n"
    run = migrate({"t.py": text}, only=("TMQ021",))
    assert run.text == text
    assert run.messages() == ["TMQ021 unsafe"]


def test_task_among_other_names_of_one_import_moves() -> None:
    text = (
        "from celery import (\n    chord,\n    task,\n)\n\n\n@task()\ndef a(): ...\n\n\nchord([])\n"
    )
    made = shim(text)
    assert "@shared_task()\n" in made
    assert "    task," not in made
