"""What the request of a task that runs has beside what its message says.

Apart from what makes requests, since ``celery.app`` needs it: making an app does not load the
engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["OF_RUN", "as_given"]

PENDING_RETRY = "_pending_retry"
"""The key of the retries that the body has asked for without raising them."""
GROWTH, TRAIL, FOLLOWS, GIVEN_AS_LIST = "_growth", "_children", "_follows", "_given_as_list"
CHECK_RESULT = "_check_result"
"""The key of what the tracer calls with the value that the body returned."""
DONE_BEFORE = "_done_before"
"""The key of where the tracer puts the result of a task that has succeeded before."""
OF_RUN = frozenset(
    {PENDING_RETRY, GROWTH, TRAIL, FOLLOWS, GIVEN_AS_LIST, CHECK_RESULT, DONE_BEFORE}
)


def as_given(request: Mapping[str, Any], args: Any) -> Any:
    """The arguments of a request, for their text: as the tuple or the list that was given."""
    return args if request.get(GIVEN_AS_LIST, True) or not isinstance(args, list) else tuple(args)
