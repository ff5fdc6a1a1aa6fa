"""Settings that the shim takes without a meaning, and why.

A test compares them with what the shim itself says.
"""

from __future__ import annotations

__all__ = ["PREFETCH", "without_effect"]

CONNECTION = "it belongs to the connection to a message broker"
POOL = "pools work differently"
CHILD = "it counts in prefork only"
AZURE = "the client library has its own rules of trying again"
PREFETCH = frozenset(
    {
        "worker_disable_prefetch",
        "worker_enable_prefetch_count_reduction",
        "worker_prefetch_multiplier",
    }
)
"""Those about taking jobs in advance, of which there is more to say."""

REASONS = {
    "azureblockblob_retry_increment_base": AZURE,
    "azureblockblob_retry_initial_backoff_sec": AZURE,
    "azureblockblob_retry_max_attempts": AZURE,
    "broker_channel_error_retry": CONNECTION,
    "broker_connection_max_retries": CONNECTION,
    "broker_connection_retry": CONNECTION,
    "broker_connection_retry_on_startup": CONNECTION,
    "broker_connection_timeout": CONNECTION,
    "broker_failover_strategy": CONNECTION,
    "broker_heartbeat": CONNECTION,
    "broker_heartbeat_checkrate": CONNECTION,
    "broker_login_method": CONNECTION,
    "broker_native_delayed_delivery_queue_type": CONNECTION,
    "broker_pool_acquire_timeout": CONNECTION,
    "broker_pool_limit": CONNECTION,
    "broker_use_ssl": CONNECTION,
    "cassandra_bundle_path": "cassandra_secure_bundle_path is the setting",
    "result_chord_retry_interval": "nothing asks again and again whether a chord is ready",
    "result_exchange": "results are not sent as messages",
    "result_exchange_type": "results are not sent as messages",
    "result_persistent": "results are as durable as where they are kept",
    "task_acks_on_failure": "a task that failed is done with, and kept as a dead letter",
    "task_acks_on_failure_or_timeout": "a task that failed is done with, and kept as a dead letter",
    "task_acks_on_timeout": "a task that failed is done with, and kept as a dead letter",
    "task_compression": "jobs are stored as they are",
    "task_create_missing_queue_exchange_type": CONNECTION,
    "task_create_missing_queue_type": CONNECTION,
    "task_default_delivery_mode": "every job is as durable as the store",
    "task_default_queue_type": CONNECTION,
    "task_queue_max_priority": "every queue has priorities",
    "task_reject_on_worker_lost": "a job whose worker was lost is always run again",
    "task_retry_on_worker_lost": "a job whose worker was lost is always run again",
    "task_soft_time_limit": CHILD,
    "task_time_limit": CHILD,
    "worker_detect_quorum_queues": CONNECTION,
    "worker_eta_task_limit": "delayed jobs stay in the store until they are due",
    "worker_lost_wait": POOL,
    "worker_max_memory_per_child": CHILD,
    "worker_max_tasks_per_child": CHILD,
    "worker_pool_putlocks": POOL,
    "worker_pool_restarts": POOL,
    "worker_pool_start_method": POOL,
    "worker_proc_alive_timeout": POOL,
}


def without_effect() -> dict[str, str]:
    """Names of settings, and the reason of each."""
    return dict(REASONS)
