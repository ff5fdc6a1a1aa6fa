"""What takes a worker's messages in."""

from __future__ import annotations

from .agent import Agent
from .connection import Connection
from .consumer import Consumer
from .control import Control
from .delayed_delivery import DelayedDelivery as DelayedDelivery
from .events import Events
from .gossip import Gossip
from .heart import Heart
from .mingle import Mingle
from .tasks import Tasks

__all__ = (
    "Agent",
    "Connection",
    "Consumer",
    "Control",
    "Events",
    "Gossip",
    "Heart",
    "Mingle",
    "Tasks",
)
