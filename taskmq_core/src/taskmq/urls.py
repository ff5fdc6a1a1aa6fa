"""URLs of stores, as they may be shown."""

from __future__ import annotations

import re

__all__ = ["without_passwords"]

SECRETS = (
    re.compile(r"(?<=://)([^:@/?#\s]*):[^@/?#\s]*(?=@)"),
    re.compile(r"(?<=%3A%2F%2F)([^&\s]*?)%3A[^&\s]*?(?=%40)", re.IGNORECASE),  # a URL in a URL
)
OPTIONS = re.compile(r"((?:^|[?&;])[^=&]*(?:password|secret|token)[^=&]*=)[^&;#\s]*", re.IGNORECASE)


def without_passwords(url: str) -> str:
    """The same, with ``***`` in place of passwords: those before a host, those in options, and
    those of URLs that are options.

    >>> without_passwords("redis://ann:secret@host/0")
    'redis://ann:***@host/0'
    """
    for secret in SECRETS:
        url = secret.sub(r"\1:***", url)
    return OPTIONS.sub(r"\1***", url)
