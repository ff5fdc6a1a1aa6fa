"""Old names of settings, by how they are loaded; and everything that must not be taken for one."""

from tests.migrate.tools import Migrated, migrate

SETTINGS_RULES = ("TMQ030", "TMQ031", "TMQ032", "TMQ034")
LOADS = "from celery import Celery\n\napp = Celery()\napp.config_from_object({})\n"


def settings(files: dict[str, str], *, unsafe: bool = False) -> Migrated:
    run = migrate(files, only=SETTINGS_RULES, unsafe=unsafe)
    again = migrate(run.files, only=SETTINGS_RULES, unsafe=unsafe)
    assert again.files == run.files
    return run


def test_a_module_named_by_a_string() -> None:
    run = settings(
        {
            "shop/__init__.py": "",
            "shop/conf.py": "import os\n\nBROKER_URL = os.environ['BROKER_URL']\n"
            "CELERYBEAT_SCHEDULE = {}\nCELERYBEAT_SCHEDULE['a'] = {'task': 'BROKER_URL'}\n",
            "shop/worker.py": LOADS.format("'shop.conf'"),
            "shop/other.py": "from .conf import BROKER_URL\nfrom shop import conf\n\n"
            "print(BROKER_URL, conf.CELERYBEAT_SCHEDULE, 'BROKER_URL')\n",
        }
    )
    assert run.files["shop/conf.py"] == (
        "import os\n\nbroker_url = os.environ['BROKER_URL']\n"
        "beat_schedule = {}\nbeat_schedule['a'] = {'task': 'BROKER_URL'}\n"
    )
    assert run.files["shop/other.py"] == (
        "from .conf import broker_url\nfrom shop import conf\n\n"
        "print(broker_url, conf.beat_schedule, 'BROKER_URL')\n"
    )


def test_a_class_and_the_ones_derived_from_it() -> None:
    run = settings(
        {
            "conf.py": "class Base:\n    BROKER_URL = 'a'\n"
            "    CELERY_RESULT_BACKEND = BROKER_URL\n\n\n"
            "class Live(Base):\n    CELERYD_CONCURRENCY = 9\n",
            "worker.py": "from conf import Base\n" + LOADS.format("Base"),
        }
    )
    assert run.files["conf.py"] == (
        "class Base:\n    broker_url = 'a'\n    result_backend = broker_url\n\n\n"
        "class Live(Base):\n    worker_concurrency = 9\n"
    )


def test_a_module_that_holds_more_waits_for_unsafe() -> None:
    files = {
        "conf.py": "SECRET_KEY = 'x'\nBROKER_URL = 'a'\n",
        "worker.py": LOADS.format("'conf'"),
    }
    assert settings(files).files == files
    assert settings(files).messages() == ["TMQ030 unsafe"]
    changed = settings(files, unsafe=True).files["conf.py"]
    assert changed == "SECRET_KEY = 'x'\nbroker_url = 'a'\n"


def test_django_with_a_namespace() -> None:
    run = settings(
        {
            "shop/__init__.py": "",
            "shop/settings/__init__.py": "from .base import *\nCELERY_ALWAYS_EAGER = True\n",
            "shop/settings/base.py": "BROKER_URL = 'a'\nS3_BUCKET = 'mine'\nMY_BROKER_URL = 'b'\n",
            "shop/celery.py": LOADS.format("'django.conf:settings', namespace='CELERY'"),
            "shop/tests.py": "from django.test import override_settings\n\n\n"
            "@override_settings(CELERY_ALWAYS_EAGER=True, DEBUG=True)\ndef test_a(settings):\n"
            "    settings.CELERYD_CONCURRENCY = 3\n",
        }
    )
    assert run.files["shop/settings/__init__.py"] == (
        "from .base import *\nCELERY_TASK_ALWAYS_EAGER = True\n"
    )
    assert run.files["shop/settings/base.py"] == (
        "CELERY_BROKER_URL = 'a'\nS3_BUCKET = 'mine'\nMY_BROKER_URL = 'b'\n"
    )
    assert "CELERY_TASK_ALWAYS_EAGER=True, DEBUG=True" in run.files["shop/tests.py"]
    assert "settings.CELERY_WORKER_CONCURRENCY = 3" in run.files["shop/tests.py"]


def test_django_without_a_namespace_gets_one_with_unsafe() -> None:
    files = {
        "shop/settings.py": "BROKER_URL = 'a'\n",
        "shop/__init__.py": "",
        "shop/celery.py": LOADS.format("'django.conf:settings'"),
        "shop/views.py": "from django.conf import settings\n\nprint(settings.BROKER_URL)\n",
    }
    assert settings(files).files == files
    run = settings(files, unsafe=True)
    assert run.files["shop/settings.py"] == "CELERY_BROKER_URL = 'a'\n"
    assert "'django.conf:settings', namespace=\"CELERY\")" in run.files["shop/celery.py"]
    assert "settings.CELERY_BROKER_URL" in run.files["shop/views.py"]


def test_of_two_names_the_old_one_goes() -> None:
    files = {
        "conf.py": "x = 1\nBROKER_URL = 'a'\nbroker_url = 'b'\n",
        "w.py": LOADS.format("'conf'"),
    }
    assert settings(files).files == files
    assert settings(files, unsafe=True).files["conf.py"] == "x = 1\nbroker_url = 'b'\n"


def test_an_old_name_that_something_reads_is_marked() -> None:
    text = "BROKER_URL = 'a'\nbroker_url = BROKER_URL\n"
    run = settings({"conf.py": text, "w.py": LOADS.format("'conf'")}, unsafe=True)
    assert run.files["conf.py"] == (
        f"# TODO(taskmq-migrate TMQ030): BROKER_URL is set beside broker_url: keep one\n{text}"
    )


def test_the_conf_of_an_app() -> None:
    run = settings(
        {
            "shop/__init__.py": "",
            "shop/app.py": "from celery import Celery\n\n\ndef make():\n    app = Celery()\n"
            "    app.conf.update({'BROKER_URL': 'a', 'x': 'BROKER_URL'}, **{})\n"
            "    return app\n\n\n"
            "celery = make()\n",
            "shop/tasks.py": "from .app import celery as c\n\nc.conf.CELERY_ALWAYS_EAGER = True\n"
            "print(getattr(c.conf, 'CELERYD_POOL', None), 'BROKER_URL' in c.conf)\n"
            "print(c.CELERY_ALWAYS_EAGER, c.config['BROKER_URL'])\n",
            "tests/conftest.py": "import pytest\n\n\n@pytest.fixture\ndef celery_config():\n"
            "    return {'CELERY_ALWAYS_EAGER': True}\n",
        }
    )
    assert "{'broker_url': 'a', 'x': 'BROKER_URL'}" in run.files["shop/app.py"]
    assert run.files["shop/tasks.py"] == (
        "from .app import celery as c\n\nc.conf.task_always_eager = True\n"
        "print(getattr(c.conf, 'worker_pool', None), 'broker_url' in c.conf)\n"
        "print(c.CELERY_ALWAYS_EAGER, c.config['BROKER_URL'])\n"
    )
    assert "{'task_always_eager': True}" in run.files["tests/conftest.py"]


def test_faults_of_substring_replacement_are_not_repeated() -> None:
    """What ``celery upgrade settings`` gets wrong: comments, strings, names that contain one."""
    text = (
        "# BROKER_URL is read from CELERY_RESULT_BACKEND\nMY_BROKER_URL = 'BROKER_URL'\n"
        'CELERY_RESULT_BACKEND_NAME = "CELERY_RESULT_BACKEND"\n'
        "def load(BROKER_URL):\n    '''BROKER_URL'''\n    return BROKER_URL\n"
    )
    files = {"conf.py": text, "w.py": LOADS.format("'conf'")}
    assert settings(files, unsafe=True).files == files
