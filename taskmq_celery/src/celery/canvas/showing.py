"""How canvases look to people."""

from __future__ import annotations

import re

__all__ = ("without_module",)


def without_module(task_name: str, text: str) -> str:
    """``text`` with the module of the task's name mentioned once.

    >>> without_module("proj.add", "proj.add(1) | proj.add(2)")
    'proj.add(1) | add(2)'
    """
    module = str(task_name).rpartition(".")[0]
    if not module:
        return text
    # Not at the end of a longer name: "app.tasks." is no part of "webapp.tasks.".
    mention = re.compile(rf"(?<![\w.-]){re.escape(module)}\.")
    first = mention.search(text)
    if first is None:
        return text
    return text[: first.end()] + mention.sub("", text[first.end() :])
