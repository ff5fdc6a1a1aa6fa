"""One command in each kind of file that runs commands: examples for the pages of rules."""

from __future__ import annotations

from collections.abc import Iterable

from .model import Example, Kind

__all__ = ["in_files"]

FILES = {
    Kind.DOCKERFILE: ("Dockerfile", "FROM python:3.12\nRUN {}\n"),
    Kind.INI: ("supervisor.conf", "[program:worker]\ncommand={}\n"),
    Kind.MAKEFILE: ("Makefile", "worker:\n\t{}\n"),
    Kind.PROCFILE: ("Procfile", "worker: {}\n"),
    Kind.PYTHON: ("start.py", 'import os\n\nos.system("{}")\n'),
    Kind.SHELL: ("start.sh", "#!/bin/sh\n{}\n"),
    Kind.SYSTEMD: ("worker.service", "[Service]\nExecStart={}\n"),
    Kind.TOML: ("pyproject.toml", '[tool.pdm.scripts]\nworker = "{}"\n'),
    Kind.YAML: ("docker-compose.yml", "services:\n  worker:\n    command: {}\n"),
}


def in_files(kinds: Iterable[Kind], before: str, after: str = "") -> tuple[Example, ...]:
    """What becomes of a command in files of these kinds: reported, if nothing else is given."""
    named = [FILES[each] for each in sorted(kinds)]
    if not after:
        return tuple(Example(name, text.format(before), reports=1) for name, text in named)
    return tuple(Example(name, text.format(before), text.format(after)) for name, text in named)
