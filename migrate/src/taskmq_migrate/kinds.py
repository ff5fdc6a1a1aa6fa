"""What kind of file a path is, by its name and, without an ending, by its first line."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from .model import Kind

__all__ = ["kind_of"]

REQUIREMENTS = re.compile(
    r"(?i)(^|[-_.])(requirements?|constraints?|deps|dependencies)([-_.].*)?\.(txt|in|pip)$"
)
BY_SUFFIX = {
    ".py": Kind.PYTHON,
    ".pyi": Kind.PYTHON,
    ".toml": Kind.TOML,
    ".yml": Kind.YAML,
    ".yaml": Kind.YAML,
    ".cfg": Kind.INI,
    ".ini": Kind.INI,
    ".conf": Kind.INI,
    ".sh": Kind.SHELL,
    ".bash": Kind.SHELL,
    ".service": Kind.SYSTEMD,
    ".mk": Kind.MAKEFILE,
    ".env": Kind.ENV,
}
BY_NAME = {
    "Pipfile": Kind.TOML,
    "Procfile": Kind.PROCFILE,
    "Dockerfile": Kind.DOCKERFILE,
    "Containerfile": Kind.DOCKERFILE,
    "Makefile": Kind.MAKEFILE,
    "makefile": Kind.MAKEFILE,
    "GNUmakefile": Kind.MAKEFILE,
    ".env": Kind.ENV,
}


def kind_of(path: str, first_line: bytes = b"") -> Kind | None:
    """The kind of a file, or None if no rule could be about it."""
    pure = PurePosixPath(path)
    name = pure.name
    if name in BY_NAME:
        return BY_NAME[name]
    if name.startswith(("Dockerfile.", "Procfile.")):
        return BY_NAME[name.partition(".")[0]]
    if name.endswith((".Dockerfile", ".dockerfile")):
        return Kind.DOCKERFILE
    if REQUIREMENTS.search(name) or (
        pure.suffix in (".txt", ".in") and "requirements" in pure.parent.parts
    ):
        return Kind.REQUIREMENTS
    if name.startswith(".env"):
        return Kind.ENV
    found = BY_SUFFIX.get(pure.suffix)
    if found is None and not pure.suffix and first_line.startswith(b"#!"):
        if b"python" in first_line:
            return Kind.PYTHON
        if re.search(rb"\b(ba|da|k|z)?sh\b", first_line):
            return Kind.SHELL
    return found
