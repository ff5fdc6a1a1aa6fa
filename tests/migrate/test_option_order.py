"""Commands of Celery 4, in every kind of file that starts a worker."""

import pytest
from tests.migrate.tools import migrate

CASES = {
    "Procfile": (
        "worker: exec celery worker --app=shop.celery -l info\n",
        "worker: exec celery --app=shop.celery worker -l info\n",
    ),
    "Dockerfile": (
        "RUN pip install x && \\\n    # a\n    celery worker \\\n      -A shop \\\n      -l info\n",
        "RUN pip install x && \\\n    # a\n    celery -A shop worker \\\n      -l info\n",
    ),
    "compose.yaml": (
        'services:\n  w:\n    command: "celery worker -A shop -Q a,b"\n  x:\n    command:\n'
        "      - celery\n      - worker\n      - -A\n      - shop\n  y:\n"
        "    command: [celery, beat, -A, shop]\n",
        'services:\n  w:\n    command: "celery -A shop worker -Q a,b"\n  x:\n    command:\n'
        "      - celery\n      - -A\n      - shop\n      - worker\n  y:\n"
        "    command: [celery, -A, shop, beat]\n",
    ),
    "deployment.yaml": (
        'spec:\n  containers:\n    - command: ["celery"]\n      args: ["worker", "-A", "shop"]\n',
        'spec:\n  containers:\n    - command: ["celery"]\n      args: ["-A", "shop", "worker"]\n',
    ),
    ".github/workflows/ci.yml": (
        "jobs:\n  t:\n    steps:\n      - run: |\n          pip install -e .\n"
        "          celery worker -A shop &\n          pytest  # celery worker -A shop\n",
        "jobs:\n  t:\n    steps:\n      - run: |\n          pip install -e .\n"
        "          celery -A shop worker &\n          pytest  # celery worker -A shop\n",
    ),
    "values.yaml": (
        "worker:\n  command: >-\n    celery worker\n    -A shop -c 4\n",
        "worker:\n  command: >-\n    celery -A shop worker -c 4\n",
    ),
    "deploy/worker.service": (
        "[Service]\nDescription=celery worker -A shop\n"
        "ExecStart=/srv/venv/bin/celery worker -A shop\n"
        "ExecStop=/bin/sh -c '/srv/venv/bin/celery control shutdown -A shop'\n",
        "[Service]\nDescription=celery worker -A shop\n"
        "ExecStart=/srv/venv/bin/celery -A shop worker\n"
        "ExecStop=/bin/sh -c '/srv/venv/bin/celery -A shop control shutdown'\n",
    ),
    "supervisor.conf": (
        "[program:worker]\ncommand=/srv/bin/celery worker -A shop\n; celery worker -A x\n",
        "[program:worker]\ncommand=/srv/bin/celery -A shop worker\n; celery worker -A x\n",
    ),
    "run.sh": (
        "#!/bin/sh\n# celery worker -A shop\nC_FORCE_ROOT=1 python -m celery worker -A shop "
        '-n "w@%h" -b "$BROKER" --workdir /srv\n',
        "#!/bin/sh\n# celery worker -A shop\nC_FORCE_ROOT=1 python -m celery -A shop "
        '-b "$BROKER" --workdir /srv worker -n "w@%h"\n',
    ),
    "chart/templates/worker.yaml": (
        "{{- if .Values.worker }}\nkind: Deployment\ndescription: celery worker -A shop\n"
        'command: ["celery", "worker", "-A", "shop"]\nargs:\n  - -c\n'
        "  - celery beat -A shop --loglevel={{ .Values.level }}\n{{- end }}\n",
        "{{- if .Values.worker }}\nkind: Deployment\ndescription: celery worker -A shop\n"
        'command: ["celery", "-A", "shop", "worker"]\nargs:\n  - -c\n'
        "  - celery -A shop beat --loglevel={{ .Values.level }}\n{{- end }}\n",
    ),
    "pyproject.toml": (
        '[project]\ndescription = "celery worker -A shop"\n\n[tool.poe.tasks]\n'
        'worker = "celery worker -A shop"  # "celery worker -A shop"\n\n[tool.pdm.scripts]\n'
        "beat = { cmd = 'celery beat -A shop && echo' }\n"
        'list.cmd = ["celery", "worker", "-A", "shop"]\n',
        '[project]\ndescription = "celery worker -A shop"\n\n[tool.poe.tasks]\n'
        'worker = "celery -A shop worker"  # "celery worker -A shop"\n\n[tool.pdm.scripts]\n'
        "beat = { cmd = 'celery -A shop beat && echo' }\n"
        'list.cmd = ["celery", "-A", "shop", "worker"]\n',
    ),
    "start.py": (
        "import os\nimport subprocess as sp\n\n# celery worker -A shop\n"
        'sp.run(["celery", "worker", "-A", app])\nos.system(f"celery beat -A {app} -l info")\n'
        'sp.Popen("cd x; celery worker -A shop", shell=True)\nprint("celery worker -A shop")\n',
        "import os\nimport subprocess as sp\n\n# celery worker -A shop\n"
        'sp.run(["celery", "-A", app, "worker"])\nos.system(f"celery -A {app} beat -l info")\n'
        'sp.Popen("cd x; celery -A shop worker", shell=True)\nprint("celery worker -A shop")\n',
    ),
    "Makefile": (
        "worker:\n\t@celery worker -A shop\n\tcelery multi start w1 -A shop\n",
        "worker:\n\t@celery -A shop worker\n\tcelery multi start w1 -A shop\n",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_options_move_before_the_command(name: str) -> None:
    before, after = CASES[name]
    run = migrate({name: before}, only=("TMQ040",))
    assert run.text == after
    assert migrate({name: after}, only=("TMQ040",)).text == after


@pytest.mark.parametrize(
    "text",
    [
        "celery -A shop worker -l info\n",
        "echo celery is a worker -A shop\n",
        "celery worker -l info -- -A shop\n",
        "apt-get install celery -b worker\n",
        "kill $(pgrep celery) -A worker\n",
    ],
)
def test_other_commands_stay(text: str) -> None:
    assert migrate({"run.sh": text}, only=("TMQ040",)).text == text
