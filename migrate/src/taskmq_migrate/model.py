"""The vocabulary: what a rule is, what it finds, and what it wants changed."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

__all__ = [
    "Action",
    "Edit",
    "Example",
    "Kind",
    "NewImport",
    "Page",
    "Safety",
    "Site",
    "Span",
    "Status",
    "Target",
]


class Target(str, enum.Enum):
    """Where a repository is moved to."""

    SHIM = "shim"
    NATIVE = "native"


class Safety(str, enum.Enum):
    """What a rule promises: ``safe`` keeps behaviour, ``unsafe`` may change it and waits for
    ``--unsafe``, ``report-only`` changes nothing."""

    SAFE = "safe"
    UNSAFE = "unsafe"
    REPORT_ONLY = "report-only"


class Kind(str, enum.Enum):
    """Kinds of files, by how they are read."""

    PYTHON = "python"
    TOML = "toml"
    YAML = "yaml"
    REQUIREMENTS = "requirements"
    INI = "ini"
    DOCKERFILE = "dockerfile"
    PROCFILE = "procfile"
    SHELL = "shell"
    SYSTEMD = "systemd"
    MAKEFILE = "makefile"
    ENV = "env"


class Action(str, enum.Enum):
    """What a rule wants done at a site."""

    CONVERT = "convert"
    MARK = "mark"
    REPORT = "report"


class Status(str, enum.Enum):
    """What became of a site. ``unsafe``: it could be converted, with ``--unsafe``."""

    CONVERTED = "converted"
    MARKED = "marked"
    UNSAFE = "unsafe"
    REPORTED = "reported"


@dataclass(frozen=True, order=True)
class Span:
    """A range of the text: offsets of characters, the end excluded."""

    start: int
    end: int


@dataclass(frozen=True)
class Edit:
    """Replaces ``start`` to ``end`` by parts: new text, or spans of the old text to keep.

    What is kept is rendered with the edits that others make inside it, so edits nest.
    """

    start: int
    end: int
    parts: tuple[str | Span, ...]


@dataclass(frozen=True, order=True)
class NewImport:
    """A name that the module has to import: ``from module import name [as alias]``.

    An empty name means ``import module``.
    """

    module: str
    name: str = ""
    alias: str = ""

    def statement(self) -> str:
        alias = f" as {self.alias}" if self.alias else ""
        if not self.name:
            return f"import {self.module}{alias}"
        return f"from {self.module} import {self.name}{alias}"


@dataclass(frozen=True)
class Site:
    """One place that a rule has something to say about.

    All edits of a site are made, or none. `released` are the references to imported names that the
    edits take away: an import that has no other reference goes too.
    """

    action: Action
    span: Span
    message: str
    edits: tuple[Edit, ...] = ()
    imports: tuple[NewImport, ...] = ()
    released: tuple[Span, ...] = ()
    safety: Safety | None = None  # where a site is less safe than its rule

    def marked(self, why: str) -> Site:
        """The same site, left as it is with a marker."""
        return Site(Action.MARK, self.span, why)


@dataclass(frozen=True)
class Example:
    """A file before and after a rule. `others` are further files of the project, as context.

    ``after`` is empty where the rule only reports; then ``reports`` says how often.
    """

    path: str
    before: str
    after: str = ""
    others: dict[str, str] = field(default_factory=dict)
    reports: int = 0


@dataclass(frozen=True)
class Page:
    """What `taskmq-migrate explain` shows: why, examples, and what may go wrong."""

    why: str
    risk: str
    examples: tuple[Example, ...]
