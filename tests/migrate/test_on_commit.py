"""``delay_on_commit``: what stands in the call stays as it is."""

import pytest
from tests.migrate.tools import migrate

HEAD = (
    "from celery import shared_task\nfrom django.db import transaction\n"
    "from functools import partial\n\n\n@shared_task\ndef send(*to): ...\n\n\n"
)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("send.delay_on_commit()\n", "transaction.on_commit(partial(send.delay))\n"),
        ("send.delay_on_commit( a, *b )\n", "transaction.on_commit(partial(send.delay, a, *b))\n"),
        (
            "send.delay_on_commit(x for x in y)\n",
            "transaction.on_commit(partial(send.delay, (x for x in y)))\n",
        ),
        (
            "send.delay_on_commit((x for x in y))\n",
            "transaction.on_commit(partial(send.delay, (x for x in y)))\n",
        ),
        (
            "if x:\n    send.delay_on_commit(\n        a,  # why\n        b=1,\n    )  # now\n",
            "if x:\n    transaction.on_commit(partial(send.delay,\n        a,  # why\n"
            "        b=1,\n    ))  # now\n",
        ),
    ],
)
def test_what_is_called_when_the_transaction_is_over(before: str, after: str) -> None:
    text = migrate({"tasks.py": HEAD + before}, to="native", only=("TMQ121",)).text
    assert text == HEAD + after
