"""When something is due: cron, intervals, single instants."""

from .rules import At, Cron, Every, Rule

__all__ = ["At", "Cron", "Every", "Rule"]
