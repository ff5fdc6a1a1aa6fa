"""Child processes: for work that computes, crashes, leaks, or has to be killed.

`pool` is what the worker sees, `feeder` the thread that runs it; `nursery` makes the children, and
`child` is the life of one. ``docs/explanation/processes.md`` is the story.
"""

from __future__ import annotations

from .pool import ProcessPool

__all__ = ["ProcessPool"]
