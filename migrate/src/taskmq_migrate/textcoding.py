"""Bytes to text and back, so that what nobody edits comes back byte for byte."""

from __future__ import annotations

import codecs
import io
import tokenize
from dataclasses import dataclass

from .model import Kind
from .problems import Unreadable

__all__ = ["Coding", "decode"]


@dataclass(frozen=True)
class Coding:
    """How a file is encoded. Its line ends stay in the text as they are."""

    name: str
    bom: bool

    def encode(self, text: str) -> bytes:
        """Raises `Unreadable` if the text has characters that the file's encoding lacks."""
        try:
            return (codecs.BOM_UTF8 if self.bom else b"") + text.encode(self.name)
        except UnicodeEncodeError as error:
            missing = text[error.start : error.end]
            raise Unreadable(f"{missing!r} cannot be written in {self.name}") from None


def decode(raw: bytes, kind: Kind) -> tuple[str, Coding]:
    """Text and coding of a file; raises `Unreadable`."""
    bom = raw.startswith(codecs.BOM_UTF8)
    body = raw[len(codecs.BOM_UTF8) :] if bom else raw
    name = _declared(raw) if kind is Kind.PYTHON else "utf-8"
    try:
        text = body.decode(name)
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        raise Unreadable(f"line {line} is not {name}: save the file as UTF-8") from None
    if "\0" in text:
        raise Unreadable("holds NUL characters: save the file as UTF-8 text")
    coding = Coding(name, bom)
    if coding.encode(text) != raw:
        raise Unreadable(f"its {name} does not survive decoding: save the file as UTF-8")
    return text, coding


def _declared(raw: bytes) -> str:
    """The encoding that a Python file declares."""
    try:
        name, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
    except SyntaxError:
        reason = "is not utf-8 and declares no encoding that exists: save the file as UTF-8"
        raise Unreadable(reason) from None
    return "utf-8" if name == "utf-8-sig" else name
