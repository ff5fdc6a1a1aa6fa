"""What is shown of a store's URL."""

import pytest

from taskmq.urls import without_passwords


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("memory://", "memory://"),
        ("sqlite:////var/jobs.db?synchronous=full", "sqlite:////var/jobs.db?synchronous=full"),
        ("redis://host:6379/0", "redis://host:6379/0"),
        ("redis://:secret@host/0", "redis://:***@host/0"),
        ("redis://ann:se:cret@host/0", "redis://ann:***@host/0"),
        (
            "postgresql://ann:x@a:1,b:2/db?sslpassword=y&x=1",
            "postgresql://ann:***@a:1,b:2/db?sslpassword=***&x=1",
        ),
        ("postgresql:///db?user=ann&password=x", "postgresql:///db?user=ann&password=***"),
        ("amqp://g:x@h//?state=redis://:y@h/0", "amqp://g:***@h//?state=redis://:***@h/0"),
        (
            "amqp://g@h/?state=redis%3A%2F%2Fann%3Ay%40h",
            "amqp://g@h/?state=redis%3A%2F%2Fann:***%40h",
        ),
    ],
)
def test_passwords_are_not_shown(url: str, shown: str) -> None:
    assert without_passwords(url) == shown
