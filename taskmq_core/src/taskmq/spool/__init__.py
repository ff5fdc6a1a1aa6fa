"""Jobs that wait on this host until their store can be reached again (``Config.spool``)."""

from .file import Batch, Refused, SpoolFile
from .spool import Forwarded, Spool

__all__ = ["Batch", "Forwarded", "Refused", "Spool", "SpoolFile"]
