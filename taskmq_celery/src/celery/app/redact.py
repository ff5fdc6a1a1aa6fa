"""Passwords do not belong into logs: URLs as they may be shown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

__all__ = ("MASK", "sanitize_url")

MASK = "********"
UNREADABLE = "<unparsable url>"
HOST = re.compile(r"[\w.\-\[\]]+(:\d+)?([/?].*)?", re.DOTALL)
SECRET_OPTION = re.compile(
    r"([?&](?:sig|[^=&;]*(?:password|secret|token)[^=&;]*)=)[^&;#]*", re.IGNORECASE
)
ACCOUNT_SECRETS = ("accountkey", "sharedaccesssignature")


def sanitize_url(url: Any) -> Any:
    """A URL, or several in one, with stars for the passwords; what is no text as it is.

    Where it is not clear what belongs to a password, more is hidden rather than less.

    >>> sanitize_url("redis://ann:secret@one:6379,bob:secret@two:6379/0")
    'redis://ann:********@one:6379,bob:********@two:6379/0'
    """
    if not isinstance(url, str) or not url:
        return url
    try:
        return _sanitized(url)
    except Exception:  # whatever it is: nothing may leak
        hidden = re.sub(r"://[^@]*@", f"://{MASK}@", url)
        return hidden if MASK in hidden else UNREADABLE


def _sanitized(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url
    if any(f"{name}=" in rest.lower() for name in ACCOUNT_SECRETS) or "azure" in scheme.lower():
        return f"{scheme}://{';'.join(map(_account_part, rest.split(';')))}"
    login_ends = rest.rfind("@") + 1
    mark = rest.find("?", login_ends)  # what looks like a separator in the options is none
    servers, options = (rest, "") if mark < 0 else (rest[:mark], rest[mark:])
    shown = "".join(_servers(servers))
    return f"{scheme}://{shown}{_masked(options)}"


def _account_part(part: str) -> str:
    """``AccountKey=…`` of a connection string of Azure's."""
    name, _, _ = part.partition("=")
    if name.strip().lower() in ACCOUNT_SECRETS:
        return f"{name}={MASK}"
    return _masked(part)


def _masked(options: str) -> str:
    return SECRET_OPTION.sub(lambda found: found[1] + MASK, options)


def _servers(text: str) -> Iterator[str]:
    """Server for server, with the separators between them; empty ones are left out."""
    tokens = re.split("([;,])", text)
    separator, pending = "", ""
    for index in range(0, len(tokens), 2):
        chunk = pending + tokens[index]
        following = tokens[index + 1] if index + 1 < len(tokens) else ""
        if following and chunk and not _is_whole(chunk):
            pending = chunk + following  # the separator belongs to a password
            continue
        pending = ""
        if chunk:
            yield separator + _without_password(chunk)
            separator = following
        else:
            separator = separator or following


def _is_whole(chunk: str) -> bool:
    """Whether this is a server, and not the beginning of a password with a separator in it."""
    server = chunk.rpartition("://")[2]
    return "@" in server or HOST.fullmatch(server) is not None


def _without_password(server: str) -> str:
    scheme, separator, rest = server.rpartition("://")
    login, at, host = rest.rpartition("@")
    user, colon, _ = login.partition(":")
    if colon:
        login = f"{user}:{MASK}"
    elif "@" in login:
        login = MASK
    return f"{scheme}{separator}{login}{at}{host}"
