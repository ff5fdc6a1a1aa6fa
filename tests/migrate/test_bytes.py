"""Every byte that no rule is about comes back, whatever the file looks like."""

import codecs
import random

import pytest

from taskmq_migrate.engine import rewrite
from taskmq_migrate.facts import Facts
from taskmq_migrate.model import Kind, Target
from taskmq_migrate.registry import select
from taskmq_migrate.textcoding import decode

RULES = select(Target.SHIM)
OLD = "from celery.task import task"
NEW = "from celery import shared_task"
BODY = "\n\n\n@task\ndef f(x):\n\tif x:\n\t\treturn 'ü'  # ä\n\treturn  x"


def moved(raw: bytes, kind: Kind = Kind.PYTHON) -> bytes:
    outcome = rewrite("tasks.py", kind, raw, Facts(), RULES, False)
    assert outcome.error == ""
    after = raw if outcome.after is None else outcome.after
    again = rewrite("tasks.py", kind, after, Facts(), RULES, False)
    assert again.after is None
    return after


def expected(text: str) -> str:
    return text.replace(OLD, NEW).replace("@task", "@shared_task")


@pytest.mark.parametrize(
    ("name", "text", "coding", "bom"),
    [
        ("plain", OLD + BODY + "\n", "utf-8", b""),
        ("no final newline", OLD + BODY, "utf-8", b""),
        ("crlf", (OLD + BODY + "\n").replace("\n", "\r\n"), "utf-8", b""),
        ("byte order mark", OLD + BODY, "utf-8", codecs.BOM_UTF8),
        ("cookie", "# -*- coding: latin-1 -*-\n" + OLD + BODY, "latin-1", b""),
        ("form feeds", OLD + "\n\f\nx = 1\n\f" + BODY + "\n\f\n", "utf-8", b""),
        ("leading form feed", "\f" + OLD + BODY, "utf-8", b""),
        ("mixed line ends", OLD + BODY + "\r\ny = 1\n\r\nz = 2", "utf-8", b""),
        ("trailing space", OLD + BODY + "  \n   \n\t\n\\\n\n", "utf-8", b""),
    ],
)
def test_what_is_not_rewritten_stays(name: str, text: str, coding: str, bom: bytes) -> None:
    assert moved(bom + text.encode(coding)) == bom + expected(text).encode(coding), name


def test_python_of_every_shape_survives() -> None:
    """Random programs made of lines that mention Celery in places no rule may touch."""
    generator = random.Random(7)
    lines = [
        "x = 'celery.task.task'  # celery.task",
        '"""from celery.task import task"""',
        "def task(f=lambda task: task):\n\treturn [task for task in f]",
        "class A:\n    task = 1\n\n    def b(self):\n        global q\n        q = self.task",
        "if (task := len('BROKER_URL')) > 1: pass",
        "\f",
        "for CELERY_TIMEZONE in (): print(CELERY_TIMEZONE)",
        "try:\n    pass\nexcept Exception as task:\n    raise",
        "with open('BROKER_URL') as BROKER_URL: BROKER_URL.read()",
        "f'{task!r:>{10}} celery.task {{}}'",
        "@(lambda f: f)\nasync def g(*task, **celery): return await task[0]",
        "",
    ]
    for _ in range(40):
        text = "\n".join(generator.choices(lines, k=9)) + generator.choice(["", "\n", "  # end"])
        raw = text.replace("\n", generator.choice(["\n", "\r\n"])).encode()
        assert moved(raw) == raw


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (b"celery==5\n", Kind.REQUIREMENTS),
        (b"\xef\xbb\xbfcelery==5\r\n# celery\r\n", Kind.REQUIREMENTS),
        (b'[project]\r\ndependencies = ["celery"]\r\n', Kind.TOML),
        (b"w:\r\n  command:   celery worker -A x   # celery worker -A y\r\n", Kind.YAML),
        (b"[a]\ncommand = celery worker -A x", Kind.INI),
    ],
)
def test_other_files_keep_their_lines(raw: bytes, kind: Kind) -> None:
    after = moved(raw, kind)
    assert after != raw
    assert after.count(b"\r\n") == raw.count(b"\r\n")
    assert after.count(b"\n") == raw.count(b"\n")
    assert after.startswith(codecs.BOM_UTF8) == raw.startswith(codecs.BOM_UTF8)
    assert after.endswith(b"\n") == raw.endswith(b"\n")


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"def f(:\n    celery.task\n", " is no Python: "),
        (b"x = 'celery \xff'\n", "is not utf-8 and declares no encoding"),
        (b"# coding: klingon\nimport celery\n", "declares no encoding that exists"),
        ("import celery\n".encode("utf-16"), "save the file as UTF-8"),
        (b"x = 'celery.task\0'\n", "NUL"),
        (b"from celery.task import task\r@task\rdef f(): ...\r", "does not give it back"),
    ],
)
def test_what_cannot_be_read_says_why(raw: bytes, said: str) -> None:
    outcome = rewrite("tasks.py", Kind.PYTHON, raw, Facts(), RULES, False)
    assert outcome.after is None
    assert said in outcome.error


def test_decoding_is_undone_by_encoding() -> None:
    for raw in (b"", b"\xef\xbb\xbf", b"a\r\nb\r", "ü\n".encode()):
        text, coding = decode(raw, Kind.PYTHON)
        assert coding.encode(text) == raw


def test_a_comment_is_never_dropped() -> None:
    raw = (
        b"from celery.task import (\r\n    Task,  # the base\r\n)\r\n\r\n\r\nclass A(Task): ...\r\n"
    )
    after = moved(raw)
    assert after.startswith(b"# the base\r\nfrom celery import Task\r\n\r\n\r\n")
    assert moved(after) == after


def test_a_comment_for_a_tool_stays_on_its_line() -> None:
    raw = b"from celery.task import (\n    Task,  # type: ignore\n)\n\n\nclass A(Task): ...\n"
    after = moved(raw)
    assert after.startswith(b"# TODO(taskmq-migrate TMQ020): left as it is: a comment for a tool")
    assert after.endswith(raw)
