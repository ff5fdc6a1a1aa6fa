"""Changes go to disk: each file whole or not at all, and back again without git."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from .discovery import is_git_tree
from .problems import Refused
from .project import Change

__all__ = ["refuse_dirty", "replace_file", "undo", "write"]

JOURNAL = ".taskmq-migrate"


def replace_file(path: Path, content: bytes) -> None:
    """Give a file new content, by a temporary file beside it and a rename; mode bits stay."""
    mode = path.stat().st_mode & 0o7777
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with open(handle, "wb") as file:  # noqa: PTH123  # a descriptor, not a path
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(mode)
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise


def refuse_dirty(root: Path) -> None:
    """Raises `Refused` if the git checkout at ``root`` has changes that are not committed."""
    if not is_git_tree(root.resolve()):
        return
    command = ["git", "status", "--porcelain", "--", "."]
    try:
        run = subprocess.run(command, cwd=root, capture_output=True, check=True)  # git is on PATH
    except (OSError, subprocess.CalledProcessError) as error:
        raise Refused(f"git cannot say whether {root} is clean ({error}): --allow-dirty") from None
    changed = [line for line in run.stdout.decode(errors="replace").splitlines() if line]
    if changed:
        first = changed[0][3:]
        raise Refused(
            f"{len(changed)} uncommitted changes ({first}, …): commit or stash them, "
            "or pass --allow-dirty"
        )


def write(root: Path, changes: Sequence[Change]) -> list[tuple[str, str]]:
    """Write all changes; the ones that could not be written come back with the reason.

    A file that has changed since it was read is not touched. Outside git, what was there goes to a
    journal in ``.taskmq-migrate`` first, for `undo`.
    """
    if changes and not is_git_tree(root.resolve()):
        _record(root, changes)
    failed = []
    for change in changes:
        path = root / change.path
        try:
            if path.read_bytes() != change.before:
                failed.append((change.path, "has changed meanwhile: run again"))
                continue
            replace_file(path, change.after)
        except OSError as error:
            failed.append((change.path, f"cannot be written: {error.strerror}"))
    return failed


def _record(root: Path, changes: Iterable[Change]) -> None:
    folder = root / JOURNAL
    folder.mkdir(exist_ok=True)
    entries = [
        {
            "path": each.path,
            "before": base64.b64encode(each.before).decode(),
            "after": _digest(each.after),
        }
        for each in changes
    ]
    number = len(list(folder.glob("undo-*.json"))) + 1
    target = folder / f"undo-{number:04}.json"
    temporary = target.with_suffix(".tmp")
    temporary.write_text(json.dumps(entries))
    temporary.replace(target)


def _digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def undo(root: Path) -> list[str]:
    """Take back the last `write`: the paths restored. Raises `Refused`, and then restores none."""
    journals = sorted((root / JOURNAL).glob("undo-*.json"))
    if not journals:
        if is_git_tree(root.resolve()):
            raise Refused("this is a git checkout: git restore . takes everything back")
        raise Refused(f"nothing to undo: {root / JOURNAL} has no record")
    entries = json.loads(journals[-1].read_text())
    restorable = []
    for entry in entries:
        path, before = root / entry["path"], base64.b64decode(entry["before"])
        current = path.read_bytes() if path.exists() else b""
        if current == before:
            continue
        if _digest(current) != entry["after"]:
            raise Refused(f"{entry['path']} has changed since: restore it from {journals[-1]}")
        restorable.append((entry["path"], before))
    for name, before in restorable:
        replace_file(root / name, before)
    journals[-1].unlink()
    if len(journals) == 1:
        with contextlib.suppress(OSError):
            (root / JOURNAL).rmdir()
    return [name for name, _ in restorable]
