"""What happens in a simulation, as a value: it can be drawn from a seed, cut, stored and repeated.

Each move brings the seed of everything that is drawn while it lasts, so that a move means the same
whatever was cut before it.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from taskmq.errors import ConfigError

from .profile import ACTIONS, Profile

__all__ = ["Move", "Schedule"]

MOVE = re.compile(r"([a-z_]+):(\d+)(!?)")


@dataclass(frozen=True, slots=True)
class Move:
    """One action, and the seed of its details.

    ``plain``: without what else could happen in it. Nothing comes between, no fault strikes, and
    tasks succeed.
    """

    action: str
    seed: int
    plain: bool = False

    def __str__(self) -> str:
        return f"{self.action}:{self.seed}{'!' if self.plain else ''}"

    @classmethod
    def parse(cls, text: str) -> Move:
        """The inverse of ``str``. Raises `ConfigError`."""
        match = MOVE.fullmatch(text)
        if match is None or match[1] not in ACTIONS:
            raise ConfigError(f"{text!r} is no move of a simulation")
        return cls(match[1], int(match[2]), bool(match[3]))


@dataclass(frozen=True)
class Schedule:
    """The moves of one simulation, on a store of this kind. Its profile is that of ``seed``."""

    seed: int
    transport: str
    moves: Sequence[Move]

    @classmethod
    def draw(cls, seed: int, steps: int, transport: str) -> Schedule:
        """What a seed gives."""
        draw = random.Random(seed)
        actions = Profile.of(draw).actions
        names = draw.choices(list(actions), list(actions.values()), k=steps)
        return cls(seed, transport, [Move(name, draw.getrandbits(24)) for name in names])

    @property
    def profile(self) -> Profile:
        return Profile.of(random.Random(self.seed))

    def dump(self) -> str:
        """One line of JSON, for ``--replay``."""
        moves = " ".join(map(str, self.moves))
        return json.dumps({"seed": self.seed, "transport": self.transport, "moves": moves})

    @classmethod
    def load(cls, text: str) -> Schedule:
        """The inverse of `dump`. Raises `ConfigError`."""
        try:
            fields = json.loads(text)
            seed, transport, moves = fields["seed"], fields["transport"], fields["moves"]
            return cls(int(seed), str(transport), [Move.parse(move) for move in moves.split()])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(
                f"no schedule of a simulation ({type(error).__name__}: {error}); it is one line of "
                'JSON with "seed", "transport" and "moves", as a failing simulation prints it'
            ) from None
