"""Named, described blocks of SQL in resource files, beside the code that runs them.

A file is a sequence of blocks. Each begins with its name and a comment that says what it does:

    -- name: top_priority
    -- The highest priority with a ready job in a queue.
    SELECT max(priority) FROM jobs WHERE phase = 2 AND queue = ?;
"""

from __future__ import annotations

import pkgutil
import re

__all__ = ["load_blocks", "read_text"]

BLOCK = re.compile(r"^-- name: (\w+)\n((?:--.*\n)*)", re.MULTILINE)


def read_text(package: str, name: str) -> str:
    """The text of a resource file."""
    # importlib.resources would load what reads ZIP files and makes temporary ones: half a MiB
    data = pkgutil.get_data(package, name)
    if data is None:
        raise FileNotFoundError(f"{package}: {name} cannot be read by what loaded the package")
    return data.decode()


def load_blocks(package: str, name: str) -> dict[str, str]:
    """The statements of a resource file by name, without their comments.

    Raises ``ValueError`` for a block without a description or a name that occurs twice.
    """
    _, *parts = BLOCK.split(read_text(package, name))
    blocks: dict[str, str] = {}
    for block, description, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        if not description.strip("- \n") or block in blocks:
            raise ValueError(f"{name}: block {block!r} needs a description and a name of its own")
        blocks[block] = body.strip().rstrip(";")
    return blocks
