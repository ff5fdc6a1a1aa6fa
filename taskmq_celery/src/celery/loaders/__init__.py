"""How an app imports modules and its configuration."""

from __future__ import annotations

from typing import Any

from kombu.utils.imports import symbol_by_name

__all__ = ("get_loader_cls",)

LOADER_ALIASES = {
    "app": "celery.loaders.app:AppLoader",
    "default": "celery.loaders.default:Loader",
}


def get_loader_cls(loader: Any) -> Any:
    """The loader class of that name, alias or path."""
    return symbol_by_name(loader, LOADER_ALIASES)
