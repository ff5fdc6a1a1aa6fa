"""Celery's settings as the engine's configuration.

`native_config` maps what an app's settings say; `NOT_USED` names the settings that have no
meaning on the engine, each with the reason (``docs/celery/settings.md`` lists them).
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping
from typing import Any

from taskmq import Config, ConfigError

from .brokers import UnsupportedBroker, broker_url
from .settings import SETTINGS

__all__ = [
    "NOT_USED",
    "SettingsError",
    "UnsupportedBroker",
    "broker_url",
    "is_native",
    "is_wanted",
    "native_config",
    "result_ttl",
    "slots",
    "unused_settings",
]

FOREVER = 10 * 365 * 86_400.0
"""``result_expires`` of 0 or None: results are kept."""

NATIVE_BACKENDS = ("memory", "postgres", "postgresql", "sqlite")
"""Schemes of the engine that no result backend of Celery's has."""


SettingsError = ConfigError
"""What every error about a setting is."""


def is_wanted(backend: Any) -> bool:
    """Whether results are wanted: then the engine keeps them, whatever else is done with them."""
    return bool(backend) and backend not in ("disabled", "disabled://")


def is_native(backend: str) -> bool:
    """Whether a ``result_backend`` means the engine's records and nothing beside them."""
    return backend.partition("://")[0].rstrip(":/") in NATIVE_BACKENDS


def result_ttl(expires: Any) -> float:
    """``result_expires`` in seconds. Raises `ConfigError`."""
    if isinstance(expires, datetime.timedelta):
        expires = expires.total_seconds()
    if not expires:
        return FOREVER
    try:
        return float(expires)
    except (TypeError, ValueError):
        raise ConfigError(
            f"result_expires must be seconds or a timedelta, got {expires!r}"
        ) from None


def slots(wanted: Any) -> int:
    """How many tasks a worker runs at once: one for each CPU unless told. Raises `ConfigError`."""
    if not wanted or wanted == "auto":
        return os.cpu_count() or 1
    try:
        return int(wanted)
    except (TypeError, ValueError):
        raise ConfigError(
            f"worker_concurrency must be a whole number or 'auto', got {wanted!r}"
        ) from None


def native_config(conf: Any) -> Config:
    """The engine's configuration for an app's settings. Raises `ConfigError`."""
    return Config(
        transport=broker_url(
            conf.broker_write_url, conf.broker_transport_options, conf.result_backend
        ),
        default_queue=conf.task_default_queue,
        concurrency=slots(conf.worker_concurrency),
        store_results=is_wanted(conf.result_backend),
        result_ttl=result_ttl(conf.result_expires),
        max_message_bytes=MAX_MESSAGE_BYTES,
    )


MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""Celery has no limit of its own, so programs may rely on sending large arguments."""

_POOL = "the engine's pools work differently"
_BROKER = "belongs to the connection to a message broker"
_CHILD = "there are no child processes: it counts in `prefork` only"
_PREFETCH = "the worker decides by itself how much it takes in advance"

_AZURE = "the client library has its own rules of trying again"

NOT_USED: Mapping[str, str] = {
    "azureblockblob_retry_increment_base": _AZURE,
    "azureblockblob_retry_initial_backoff_sec": _AZURE,
    "azureblockblob_retry_max_attempts": _AZURE,
    "broker_channel_error_retry": _BROKER,
    "broker_connection_max_retries": _BROKER,
    "broker_connection_retry": _BROKER,
    "broker_connection_retry_on_startup": _BROKER,
    "broker_connection_timeout": _BROKER,
    "broker_failover_strategy": _BROKER,
    "broker_heartbeat": _BROKER,
    "broker_heartbeat_checkrate": _BROKER,
    "broker_login_method": _BROKER,
    "broker_native_delayed_delivery_queue_type": _BROKER,
    "broker_pool_acquire_timeout": _BROKER,
    "broker_pool_limit": _BROKER,
    "broker_transport_options": f"{_BROKER}, apart from those named above",
    "broker_use_ssl": _BROKER,
    "cassandra_bundle_path": "`cassandra_secure_bundle_path` is the setting",
    "result_exchange": "results are not sent as messages",
    "result_exchange_type": "results are not sent as messages",
    "result_persistent": "results are as durable as where they are kept",
    "result_chord_retry_interval": "nothing asks again and again whether a chord is ready",
    "task_acks_on_failure": "a task that failed is done with, and kept as a dead letter",
    "task_acks_on_failure_or_timeout": "a task that failed is done with, and kept as a dead letter",
    "task_acks_on_timeout": "a task that failed is done with, and kept as a dead letter",
    "task_compression": "jobs are stored as they are (`send_task_message` compresses)",
    "task_create_missing_queue_type": _BROKER,
    "task_create_missing_queue_exchange_type": _BROKER,
    "task_default_delivery_mode": "every job is as durable as the store",
    "task_default_queue_type": _BROKER,
    "task_queue_max_priority": "every queue has priorities",
    "task_reject_on_worker_lost": "a job whose worker was lost is always run again",
    "task_retry_on_worker_lost": "a job whose worker was lost is always run again",
    "task_soft_time_limit": _CHILD,
    "task_time_limit": _CHILD,
    "worker_detect_quorum_queues": _BROKER,
    "worker_disable_prefetch": _PREFETCH,
    "worker_enable_prefetch_count_reduction": _PREFETCH,
    "worker_eta_task_limit": "delayed jobs stay in the store until they are due",
    "worker_lost_wait": _POOL,
    "worker_max_memory_per_child": _CHILD,
    "worker_max_tasks_per_child": _CHILD,
    "worker_pool_putlocks": _POOL,
    "worker_pool_restarts": _POOL,
    "worker_pool_start_method": _POOL,
    "worker_prefetch_multiplier": f"{_PREFETCH}; it counts for what a `Task.Strategy` holds",
    "worker_proc_alive_timeout": _POOL,
}


READ_OPTIONS = frozenset({"lease", "master_name", "sentinel_kwargs", "state"})
"""The keys of ``broker_transport_options`` that have a meaning."""


def unused_settings(conf: Any) -> dict[str, str]:
    """The settings that somebody wrote and that have no effect, with the reason.

    For one log line when a worker starts.
    """
    return {
        name: reason
        for name, reason in NOT_USED.items()
        if conf.value_set_for(name) and _has_more(name, conf[name])
    }


def _has_more(name: str, value: Any) -> bool:
    """Whether a value says anything that is not the default and has no effect."""
    if name == "broker_transport_options":
        return bool(value.keys() - READ_OPTIONS)
    return bool(value != SETTINGS[name].default)
