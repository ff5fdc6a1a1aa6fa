"""The loader of the app that is there when a program made none: it reads ``celeryconfig.py``."""

from __future__ import annotations

import os
import warnings
from typing import Any

from celery.exceptions import NotConfigured
from celery.utils.collections import DictAttribute

from .base import BaseLoader

__all__ = ("DEFAULT_CONFIG_MODULE", "Loader")

DEFAULT_CONFIG_MODULE = "celeryconfig"


class Loader(BaseLoader):
    """Reads the module that ``CELERY_CONFIG_MODULE`` names, else ``celeryconfig``."""

    def setup_settings(self, settingsdict: dict[str, Any]) -> Any:
        """The settings of a mapping, as attributes too."""
        return DictAttribute(settingsdict)

    def read_configuration(self, fail_silently: Any = True) -> Any:
        name = os.environ.get("CELERY_CONFIG_MODULE")
        try:
            source = self._import_config(name or DEFAULT_CONFIG_MODULE)
        except ImportError:
            if name or not fail_silently:
                raise
            warnings.warn(
                NotConfigured(
                    f"no {DEFAULT_CONFIG_MODULE} module was found: make sure that it can be "
                    "imported, or make an app with celery.Celery(...)"
                ),
                stacklevel=2,
            )
            return self.setup_settings({})
        self.configured = True
        return source
