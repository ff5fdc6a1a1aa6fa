"""Coloured terminal text, as values that nest: ``colored("all good: ", green("yes"))``."""

from __future__ import annotations

import base64
import os
import sys
from pathlib import Path
from typing import Any

__all__ = ("colored",)

BLACK, RED, GREEN, YELLOW, BLUE, MAGENTA, CYAN, WHITE = range(8)
RESET = "\033[0m"


def fg(s: int) -> str:
    """The escape code of a colour: 30 to 37, 40 to 47 for the background."""
    return f"\033[1;{s}m"


def _foreground(number: int) -> str:
    return fg(30 + number)


def _background(number: int) -> str:
    return fg(40 + number)


def supports_images() -> bool:
    """Whether the terminal shows images (iTerm)."""
    return sys.stdin.isatty() and bool(os.environ.get("ITERM_PROFILE"))


def _read_as_base64(path: str) -> str:
    return base64.b64encode(Path(path).read_bytes()).decode("ascii")


def imgcat(path: str, inline: int = 1, preserve_aspect_ratio: int = 0, **kwargs: Any) -> str:
    """What to print for an image, in terminals that show them."""
    options = f"inline={inline};preserveAspectRatio={preserve_aspect_ratio}"
    return f"\n\033]1337;File={options}:{_read_as_base64(path)}\a"


class colored:  # noqa: N801  # the name under which Celery's users know it
    """Text in a colour. ``str()`` gives it with escape codes, or bare where not ``enabled``.

    >>> c = colored(enabled=True)
    >>> str(c.red("late ", c.blue("but there")))
    """

    def __init__(self, *s: Any, **kwargs: Any) -> None:
        self.s = s
        self.enabled: bool = kwargs.get("enabled", True)
        self.op: str = kwargs.get("op", "")
        self.names = {
            "black": self.black,
            "red": self.red,
            "green": self.green,
            "yellow": self.yellow,
            "blue": self.blue,
            "magenta": self.magenta,
            "cyan": self.cyan,
            "white": self.white,
        }

    def node(self, s: tuple[Any, ...], op: str) -> colored:
        """A piece of text with its own escape code, as enabled as this one."""
        return self.__class__(*s, enabled=self.enabled, op=op)

    def black(self, *s: Any) -> colored:
        return self.node(s, _foreground(BLACK))

    def red(self, *s: Any) -> colored:
        return self.node(s, _foreground(RED))

    def green(self, *s: Any) -> colored:
        return self.node(s, _foreground(GREEN))

    def yellow(self, *s: Any) -> colored:
        return self.node(s, _foreground(YELLOW))

    def blue(self, *s: Any) -> colored:
        return self.node(s, _foreground(BLUE))

    def magenta(self, *s: Any) -> colored:
        return self.node(s, _foreground(MAGENTA))

    def cyan(self, *s: Any) -> colored:
        return self.node(s, _foreground(CYAN))

    def white(self, *s: Any) -> colored:
        return self.node(s, _foreground(WHITE))

    def bold(self, *s: Any) -> colored:
        return self.node(s, "\033[1m")

    def underline(self, *s: Any) -> colored:
        return self.node(s, "\033[4m")

    def blink(self, *s: Any) -> colored:
        return self.node(s, "\033[5m")

    def reverse(self, *s: Any) -> colored:
        return self.node(s, "\033[7m")

    def bright(self, *s: Any) -> colored:
        return self.node(s, "\033[8m")

    def ired(self, *s: Any) -> colored:
        """On a red background; so are the others with an ``i``."""
        return self.node(s, _background(RED))

    def igreen(self, *s: Any) -> colored:
        return self.node(s, _background(GREEN))

    def iyellow(self, *s: Any) -> colored:
        return self.node(s, _background(YELLOW))

    def iblue(self, *s: Any) -> colored:
        return self.node(s, _background(BLUE))

    def imagenta(self, *s: Any) -> colored:
        return self.node(s, _background(MAGENTA))

    def icyan(self, *s: Any) -> colored:
        return self.node(s, _background(CYAN))

    def iwhite(self, *s: Any) -> colored:
        return self.node(s, _background(WHITE))

    def reset(self, *s: Any) -> colored:
        return self.node(s or ("",), RESET)

    def no_color(self) -> str:
        """The text without any escape code."""
        return "".join(
            part.no_color() if isinstance(part, colored) else str(part) for part in self.s
        )

    def embed(self) -> str:
        """The text with its codes, but without the final reset."""
        if not self.enabled:
            return self.no_color()
        return self.op + "".join(
            # What follows a nested colour goes on in the outer one.
            f"{part.embed()}{RESET}{self.op}" if isinstance(part, colored) else str(part)
            for part in self.s
        )

    def __str__(self) -> str:
        return f"{self.embed()}{RESET}" if self.enabled else self.no_color()

    def __repr__(self) -> str:
        return repr(self.no_color())

    def __add__(self, other: object) -> str:
        return f"{self}{other}"
