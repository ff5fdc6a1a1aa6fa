"""Unified diffs that `git apply` takes, on bytes: what it shows is what is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher

from .project import Change

__all__ = ["diff", "split_lines"]

CONTEXT = 3
NO_NEWLINE = b"\n\\ No newline at end of file\n"


def split_lines(raw: bytes) -> list[bytes]:
    """Lines as git sees them: ended by a line feed and nothing else."""
    lines = raw.split(b"\n")
    out = [each + b"\n" for each in lines[:-1]]
    return [*out, lines[-1]] if lines[-1] else out


def diff(changes: Iterable[Change]) -> Iterator[bytes]:
    """The lines of one patch for all changes, each with its line end."""
    for change in changes:
        yield b"--- " + _quoted(f"a/{change.path}") + b"\n"
        yield b"+++ " + _quoted(f"b/{change.path}") + b"\n"
        yield from _hunks(split_lines(change.before), split_lines(change.after))


def _hunks(before: list[bytes], after: list[bytes]) -> Iterator[bytes]:
    for group in SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(CONTEXT):
        first, last = group[0], group[-1]
        old, new = _range(first[1], last[2]), _range(first[3], last[4])
        yield f"@@ -{old} +{new} @@\n".encode()
        for tag, a1, a2, b1, b2 in group:
            if tag == "equal":
                yield from (_line(b" ", each) for each in before[a1:a2])
            else:
                yield from (_line(b"-", each) for each in before[a1:a2])
                yield from (_line(b"+", each) for each in after[b1:b2])


def _line(sign: bytes, line: bytes) -> bytes:
    return sign + line if line.endswith(b"\n") else sign + line + NO_NEWLINE


def _range(start: int, stop: int) -> str:
    length = stop - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"


def _quoted(path: str) -> bytes:
    """A path as git writes it: quoted if it has anything but plain characters."""
    raw = path.encode("utf-8", "surrogateescape")
    if all(32 <= each < 127 and each not in b'"\\' for each in raw):
        return raw + (b"\t" if b" " in raw else b"")
    escapes = {9: b"\\t", 10: b"\\n", 13: b"\\r", 34: b'\\"', 92: b"\\\\"}
    out = b"".join(
        escapes.get(each) or (bytes([each]) if 32 <= each < 127 else b"\\%03o" % each)
        for each in raw
    )
    return b'"' + out + b'"'
