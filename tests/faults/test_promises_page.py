"""docs/explanation/promises.md names every test of a promise, and only tests that there are."""

import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs/explanation/promises.md"
PROMISES = ("test_promises.py", "test_sigkill.py")


def names_of_tests(*names: str) -> set[str]:
    texts = [(HERE / name).read_text() for name in names]
    return {
        test for text in texts for test in re.findall(r"^ *def (test_\w+)\(", text, re.MULTILINE)
    }


def test_the_page_has_every_promise_and_no_test_that_is_not_there() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE.read_text()))
    assert names_of_tests(*PROMISES) <= named
    assert named <= names_of_tests(*(file.name for file in HERE.glob("test_*.py")))
