"""Small things that Celery's users import from here. Each is loaded when it is asked for."""

from __future__ import annotations

import importlib
from typing import Any

_WHERE = {
    "LOG_LEVELS": "celery.utils.log",
    "cached_property": "kombu.utils.objects",
    "chunks": "celery.utils.functional",
    "gen_task_name": "celery.utils.imports",
    "get_cls_by_name": "celery.utils.imports",
    "get_full_cls_name": "celery.utils.imports",
    "import_from_cwd": "celery.utils.imports",
    "instantiate": "celery.utils.imports",
    "memoize": "kombu.utils.functional",
    "nodename": "celery.utils.nodenames",
    "nodesplit": "celery.utils.nodenames",
    "noop": "celery.utils.functional",
    "symbol_by_name": "kombu.utils.imports",
    "uuid": "kombu.utils.uuid",
    "worker_direct": "celery.utils.nodenames",
}
_RENAMED = {"gen_unique_id": "uuid", "get_cls_by_name": "symbol_by_name"}
_RENAMED |= {"get_full_cls_name": "qualname"}

__all__ = (  # found by __getattr__
    "LOG_LEVELS",
    "cached_property",
    "chunks",
    "gen_task_name",
    "gen_unique_id",
    "get_cls_by_name",
    "get_full_cls_name",
    "import_from_cwd",
    "instantiate",
    "memoize",
    "nodename",
    "nodesplit",
    "noop",
    "uuid",
    "worker_direct",
)


def __getattr__(name: str) -> Any:
    real = _RENAMED.get(name, name)
    module = _WHERE.get(name) or _WHERE.get(real)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(module), real)
    globals()[name] = value
    return value
