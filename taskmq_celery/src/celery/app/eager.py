"""A run in the caller's own process: the request that ``Task.apply`` makes for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from celery.utils.functional import maybe_list
from celery.utils.nodenames import gethostname

__all__ = ("eager_request",)


def eager_request(
    task: Any, task_id: str, args: Any, kwargs: Any, options: Mapping[str, Any], caller: Any
) -> dict[str, Any]:
    """What ``task.request`` has in such a run; it belongs to the run of ``caller``, the task that
    is running here, if there is one."""
    within = {} if caller is None else {"parent_id": caller.request.id}
    if caller is not None and caller.request.root_id:
        within["root_id"] = caller.request.root_id
    limits = [
        options.get(name) or getattr(task, name) for name in ("time_limit", "soft_time_limit")
    ]
    return {
        "id": task_id,
        "task": task.name,
        "args": args,
        "kwargs": kwargs,
        "is_eager": True,
        "called_directly": False,
        "ignore_result": options.get("ignore_result", task.ignore_result),
        "hostname": gethostname(),
        "root_id": options.get("root_id") or within.get("root_id") or task_id,
        "parent_id": options.get("parent_id") or within.get("parent_id"),
        **({"timelimit": limits} if any(limits) else {}),
        **_stamps_of(options),
        "delivery_info": {
            "is_eager": True,
            "exchange": options.get("exchange"),
            "routing_key": options.get("routing_key"),
            "priority": options.get("priority"),
        },
    }


def _stamps_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """The stamps among the options of a call, as a request has them."""
    names = options.get("stamped_headers")
    if names is None:
        return {}
    stamps = {name: maybe_list(options.get(name)) or [] for name in names}
    return {"stamped_headers": names, "stamps": stamps}
