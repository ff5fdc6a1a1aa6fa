"""A canvas as one workflow of the engine: every task in it becomes a job of the same batch.

A job waits for those before it (`taskmq.Dependency`), and gets what they return as its first
argument: one value in a chain, the list of them all behind a group. The engine starts it in the
step that settles the last of them; if one fails, it is skipped, with everything behind it.

What is no task of the user's, where it is needed:

* a *gathering* job between two wide groups, and where a list is one item of another: it returns
  the list that it gets;
* an *errbacks* job beside a task behind a group, if that task has error callbacks: it runs when
  the group has failed, since the task itself does not.
"""

from .growing import Graph
from .nodes import ttl_of
from .reading import More, Place, ids_of
from .room import make_room

__all__ = ["Graph", "More", "Place", "ids_of", "make_room", "ttl_of"]
