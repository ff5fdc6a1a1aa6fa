"""Large arguments and results, kept outside of the job store. ``docs/howto/large-payloads.md``."""

from __future__ import annotations

from .files import FilePayloadStore
from .offload import Offload
from .store import PayloadStore, StoredPayload, job_of, open_payload_store
from .sweep import SweepReport, sweep

__all__ = [
    "FilePayloadStore",
    "Offload",
    "PayloadStore",
    "StoredPayload",
    "SweepReport",
    "job_of",
    "open_payload_store",
    "sweep",
]
