"""Coloured terminal text, as values that nest: ``colored("all good: ", green("yes"))``."""

from __future__ import annotations

from typing import Any

__all__ = ["colored"]

BLACK, RED, GREEN, YELLOW, BLUE, MAGENTA, CYAN, WHITE = range(8)
RESET = "\033[0m"


def _foreground(number: int) -> str:
    return f"\033[1;{30 + number}m"


class colored:  # noqa: N801  # the name under which Celery's users know it
    """Text in a colour. ``str()`` gives it with escape codes, or bare where not ``enabled``.

    >>> c = colored(enabled=True)
    >>> str(c.red("late ", c.blue("but there")))
    """

    def __init__(self, *s: Any, enabled: bool = True, op: str = "", **kwargs: Any) -> None:
        self.s = s
        self.enabled = enabled if kwargs.get("enabled") is None else kwargs["enabled"]
        self.op = op
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
