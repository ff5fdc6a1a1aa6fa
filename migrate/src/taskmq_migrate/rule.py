"""The interface of a rule. `docs/migrate/rules.md` shows how to write one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Generic, TypeVar

from .document import Document
from .model import Kind, Page, Safety, Site, Target
from .pythonfile import PythonFile
from .tomlfile import TomlFile
from .yamlfile import YamlFile

__all__ = ["AnyRule", "PythonRule", "Rule", "TextRule", "TomlRule", "YamlRule"]

D = TypeVar("D", bound=Document)
BOTH = frozenset(Target)


class Rule(ABC, Generic[D]):
    """One rewrite: what it is, and where it applies.

    A rule is stateless: one object serves every file, in several processes. `sites` must not
    depend on what other rules do: all of them see the same text, and a rule is asked again after
    its edits and theirs were made, until nothing changes.
    """

    id: str
    """``TMQ`` and three digits, as in the name of the file: never given to another rule."""
    title: str
    """What it does, in one line without a full stop."""
    safety: Safety = Safety.SAFE
    targets: frozenset[Target] = BOTH
    kinds: frozenset[Kind]
    words: tuple[str, ...]
    """A file is looked at only if it holds one of these texts (case matters)."""
    strict_words: bool = False
    """Whether it has nothing to do in a file without its words, whatever other files hold."""
    page: Page
    doctor: bool = False
    """Whether `taskmq-migrate doctor` runs it instead of check, diff and apply."""

    @abstractmethod
    def sites(self, file: D) -> Iterator[Site]:
        """Everything that the rule finds in a file, in any order."""


class PythonRule(Rule[PythonFile]):
    """A rule for Python source."""

    kinds = frozenset({Kind.PYTHON})


class TomlRule(Rule[TomlFile]):
    """A rule for TOML."""

    kinds = frozenset({Kind.TOML})


class YamlRule(Rule[YamlFile]):
    """A rule for YAML."""

    kinds = frozenset({Kind.YAML})


class TextRule(Rule[Document]):
    """A rule for files that are read line by line; `kinds` says which."""


AnyRule = PythonRule | TomlRule | YamlRule | TextRule
