"""Every setting of Celery, as data: its kind, default and old name.

Names, defaults and spellings are Celery 5.7's. The kind says how a value given as text (on a
command line) is read. Which settings mean something on the engine, and what, is in
`taskmq_celery.config`.
"""

from __future__ import annotations

import datetime
from typing import Any, NamedTuple

__all__ = ["LOG_FORMAT", "NEW_NAMES", "SETTINGS", "TASK_LOG_FORMAT", "WITHOUT_DEFAULT", "Setting"]


class Setting(NamedTuple):
    """What is known of one setting."""

    kind: str
    default: Any
    old_name: str


LOG_FORMAT = "[%(asctime)s: %(levelname)s/%(processName)s] %(message)s"
TASK_LOG_FORMAT = (
    "[%(asctime)s: %(levelname)s/%(processName)s] %(task_name)s[%(task_id)s]: %(message)s"
)

SETTINGS: dict[str, Setting] = {
    "accept_content": Setting("list", ("json",), "CELERY_ACCEPT_CONTENT"),
    "arangodb_backend_settings": Setting("dict", None, "CELERY_ARANGODB_BACKEND_SETTINGS"),
    "azureblockblob_base_path": Setting("str", "", "AZUREBLOCKBLOB_BASE_PATH"),
    "azureblockblob_connection_timeout": Setting("int", 20, "AZUREBLOCKBLOB_CONNECTION_TIMEOUT"),
    "azureblockblob_container_name": Setting("str", "celery", "AZUREBLOCKBLOB_CONTAINER_NAME"),
    "azureblockblob_read_timeout": Setting("int", 120, "AZUREBLOCKBLOB_READ_TIMEOUT"),
    "azureblockblob_retry_increment_base": Setting("int", 2, "AZUREBLOCKBLOB_RETRY_INCREMENT_BASE"),
    "azureblockblob_retry_initial_backoff_sec": Setting(
        "int", 2, "AZUREBLOCKBLOB_RETRY_INITIAL_BACKOFF_SEC"
    ),
    "azureblockblob_retry_max_attempts": Setting("int", 3, "AZUREBLOCKBLOB_RETRY_MAX_ATTEMPTS"),
    "beat_cron_starting_deadline": Setting("int", None, "CELERYBEAT_CRON_STARTING_DEADLINE"),
    "beat_enable_remote_control": Setting("bool", False, "CELERYBEAT_ENABLE_REMOTE_CONTROL"),
    "beat_max_loop_interval": Setting("float", 0, "CELERYBEAT_MAX_LOOP_INTERVAL"),
    "beat_remote_control_max_tick_age": Setting(
        "float", None, "CELERYBEAT_REMOTE_CONTROL_MAX_TICK_AGE"
    ),
    "beat_schedule": Setting("dict", {}, "CELERYBEAT_SCHEDULE"),
    "beat_schedule_filename": Setting("str", "celerybeat-schedule", "CELERYBEAT_SCHEDULE_FILENAME"),
    "beat_scheduler": Setting("str", "celery.beat:PersistentScheduler", "CELERYBEAT_SCHEDULER"),
    "beat_sync_every": Setting("int", 0, "CELERYBEAT_SYNC_EVERY"),
    "broker_channel_error_retry": Setting("bool", False, "BROKER_CHANNEL_ERROR_RETRY"),
    "broker_connection_max_retries": Setting("int", 100, "BROKER_CONNECTION_MAX_RETRIES"),
    "broker_connection_retry": Setting("bool", True, "BROKER_CONNECTION_RETRY"),
    "broker_connection_retry_on_startup": Setting(
        "bool", None, "BROKER_CONNECTION_RETRY_ON_STARTUP"
    ),
    "broker_connection_timeout": Setting("float", 4, "BROKER_CONNECTION_TIMEOUT"),
    "broker_failover_strategy": Setting("str", None, "BROKER_FAILOVER_STRATEGY"),
    "broker_heartbeat": Setting("int", 120, "BROKER_HEARTBEAT"),
    "broker_heartbeat_checkrate": Setting("int", 3.0, "BROKER_HEARTBEAT_CHECKRATE"),
    "broker_host": Setting("str", None, "BROKER_HOST"),
    "broker_login_method": Setting("str", None, "BROKER_LOGIN_METHOD"),
    "broker_native_delayed_delivery_queue_type": Setting(
        "str", "quorum", "BROKER_NATIVE_DELAYED_DELIVERY_QUEUE_TYPE"
    ),
    "broker_password": Setting("str", None, "BROKER_PASSWORD"),
    "broker_pool_acquire_timeout": Setting("float", None, "BROKER_POOL_ACQUIRE_TIMEOUT"),
    "broker_pool_limit": Setting("int", 10, "BROKER_POOL_LIMIT"),
    "broker_port": Setting("int", None, "BROKER_PORT"),
    "broker_read_url": Setting("str", None, "BROKER_READ_URL"),
    "broker_transport": Setting("str", None, "BROKER_TRANSPORT"),
    "broker_transport_options": Setting("dict", {}, "BROKER_TRANSPORT_OPTIONS"),
    "broker_url": Setting("str", None, "BROKER_URL"),
    "broker_use_ssl": Setting("bool", False, "BROKER_USE_SSL"),
    "broker_user": Setting("str", None, "BROKER_USER"),
    "broker_vhost": Setting("str", None, "BROKER_VHOST"),
    "broker_write_url": Setting("str", None, "BROKER_WRITE_URL"),
    "cache_backend": Setting("str", None, "CELERY_CACHE_BACKEND"),
    "cache_backend_options": Setting("dict", {}, "CELERY_CACHE_BACKEND_OPTIONS"),
    "cassandra_auth_kwargs": Setting("str", None, "CASSANDRA_AUTH_KWARGS"),
    "cassandra_auth_provider": Setting("str", None, "CASSANDRA_AUTH_PROVIDER"),
    "cassandra_bundle_path": Setting("str", None, "CASSANDRA_BUNDLE_PATH"),
    "cassandra_entry_ttl": Setting("float", None, "CASSANDRA_ENTRY_TTL"),
    "cassandra_keyspace": Setting("str", None, "CASSANDRA_KEYSPACE"),
    "cassandra_options": Setting("dict", {}, "CASSANDRA_OPTIONS"),
    "cassandra_port": Setting("str", None, "CASSANDRA_PORT"),
    "cassandra_read_consistency": Setting("str", None, "CASSANDRA_READ_CONSISTENCY"),
    "cassandra_servers": Setting("list", None, "CASSANDRA_SERVERS"),
    "cassandra_table": Setting("str", None, "CASSANDRA_TABLE"),
    "cassandra_write_consistency": Setting("str", None, "CASSANDRA_WRITE_CONSISTENCY"),
    "control_exchange": Setting("str", "celery", "CONTROL_EXCHANGE"),
    "control_queue_durable": Setting("bool", False, "CONTROL_QUEUE_DURABLE"),
    "control_queue_exclusive": Setting("bool", True, "CONTROL_QUEUE_EXCLUSIVE"),
    "control_queue_expires": Setting("float", 10.0, "CONTROL_QUEUE_EXPIRES"),
    "control_queue_ttl": Setting("float", 300.0, "CONTROL_QUEUE_TTL"),
    "cosmosdbsql_collection_name": Setting("str", "celerycol", "COSMOSDBSQL_COLLECTION_NAME"),
    "cosmosdbsql_consistency_level": Setting("str", "Session", "COSMOSDBSQL_CONSISTENCY_LEVEL"),
    "cosmosdbsql_database_name": Setting("str", "celerydb", "COSMOSDBSQL_DATABASE_NAME"),
    "cosmosdbsql_max_retry_attempts": Setting("int", 9, "COSMOSDBSQL_MAX_RETRY_ATTEMPTS"),
    "cosmosdbsql_max_retry_wait_time": Setting("int", 30, "COSMOSDBSQL_MAX_RETRY_WAIT_TIME"),
    "couchbase_backend_settings": Setting("dict", None, "CELERY_COUCHBASE_BACKEND_SETTINGS"),
    "database_create_tables_at_setup": Setting("bool", True, "DATABASE_CREATE_TABLES_AT_SETUP"),
    "database_engine_callback": Setting("any", None, "DATABASE_ENGINE_CALLBACK"),
    "database_engine_options": Setting(
        "dict", {"pool_pre_ping": True, "pool_recycle": 3600}, "CELERY_RESULT_ENGINE_OPTIONS"
    ),
    "database_short_lived_sessions": Setting(
        "bool", False, "CELERY_RESULT_DB_SHORT_LIVED_SESSIONS"
    ),
    "database_table_names": Setting("dict", None, "CELERY_RESULT_DB_TABLENAMES"),
    "database_table_schemas": Setting("dict", None, "DATABASE_TABLE_SCHEMAS"),
    "database_url": Setting("str", None, "CELERY_RESULT_DBURI"),
    "elasticsearch_max_retries": Setting("int", None, "CELERY_ELASTICSEARCH_MAX_RETRIES"),
    "elasticsearch_retry_on_timeout": Setting(
        "bool", None, "CELERY_ELASTICSEARCH_RETRY_ON_TIMEOUT"
    ),
    "elasticsearch_save_meta_as_text": Setting(
        "bool", True, "CELERY_ELASTICSEARCH_SAVE_META_AS_TEXT"
    ),
    "elasticsearch_timeout": Setting("float", None, "CELERY_ELASTICSEARCH_TIMEOUT"),
    "enable_utc": Setting("bool", True, "ENABLE_UTC"),
    "event_exchange": Setting("str", "celeryev", "CELERY_EVENT_EXCHANGE"),
    "event_queue_durable": Setting("bool", False, "CELERY_EVENT_QUEUE_DURABLE"),
    "event_queue_exclusive": Setting("bool", True, "CELERY_EVENT_QUEUE_EXCLUSIVE"),
    "event_queue_expires": Setting("float", 60.0, "CELERY_EVENT_QUEUE_EXPIRES"),
    "event_queue_prefix": Setting("str", "celeryev", "CELERY_EVENT_QUEUE_PREFIX"),
    "event_queue_ttl": Setting("float", 5.0, "CELERY_EVENT_QUEUE_TTL"),
    "event_serializer": Setting("str", "json", "CELERY_EVENT_SERIALIZER"),
    "gcs_base_path": Setting("str", "", "GCS_BASE_PATH"),
    "gcs_bucket": Setting("str", None, "GCS_BUCKET"),
    "gcs_project": Setting("str", None, "GCS_PROJECT"),
    "gcs_ttl": Setting("float", 0, "GCS_TTL"),
    "imports": Setting("tuple", (), "CELERY_IMPORTS"),
    "include": Setting("tuple", (), "CELERY_INCLUDE"),
    "mongodb_backend_settings": Setting("dict", None, "CELERY_MONGODB_BACKEND_SETTINGS"),
    "redis_backend_use_ssl": Setting("dict", None, "CELERY_REDIS_BACKEND_USE_SSL"),
    "redis_db": Setting("int", None, "CELERY_REDIS_DB"),
    "redis_host": Setting("str", None, "CELERY_REDIS_HOST"),
    "redis_max_connections": Setting("int", None, "CELERY_REDIS_MAX_CONNECTIONS"),
    "redis_password": Setting("str", None, "CELERY_REDIS_PASSWORD"),
    "redis_port": Setting("int", None, "CELERY_REDIS_PORT"),
    "redis_retry_on_timeout": Setting("bool", False, "CELERY_REDIS_RETRY_ON_TIMEOUT"),
    "redis_socket_connect_timeout": Setting("float", None, "CELERY_REDIS_SOCKET_CONNECT_TIMEOUT"),
    "redis_socket_keepalive": Setting("bool", False, "CELERY_REDIS_SOCKET_KEEPALIVE"),
    "redis_socket_timeout": Setting("float", 120.0, "CELERY_REDIS_SOCKET_TIMEOUT"),
    "redis_username": Setting("str", None, "CELERY_REDIS_USERNAME"),
    "result_accept_content": Setting("list", None, "RESULT_ACCEPT_CONTENT"),
    "result_backend": Setting("str", None, "CELERY_RESULT_BACKEND"),
    "result_backend_always_retry": Setting("bool", False, "CELERY_RESULT_BACKEND_ALWAYS_RETRY"),
    "result_backend_base_sleep_between_retries_ms": Setting(
        "int", 10, "CELERY_RESULT_BACKEND_BASE_SLEEP_BETWEEN_RETRIES_MS"
    ),
    "result_backend_max_retries": Setting(
        "float", float("inf"), "CELERY_RESULT_BACKEND_MAX_RETRIES"
    ),
    "result_backend_max_sleep_between_retries_ms": Setting(
        "int", 10000, "CELERY_RESULT_BACKEND_MAX_SLEEP_BETWEEN_RETRIES_MS"
    ),
    "result_backend_transport_options": Setting(
        "dict", {}, "CELERY_RESULT_BACKEND_TRANSPORT_OPTIONS"
    ),
    "result_cache_max": Setting("int", -1, "CELERY_MAX_CACHED_RESULTS"),
    "result_chord_expires": Setting("float", None, "CELERY_RESULT_CHORD_EXPIRES"),
    "result_chord_join_timeout": Setting("float", 3.0, "CELERY_RESULT_CHORD_JOIN_TIMEOUT"),
    "result_chord_retry_interval": Setting("float", 1.0, "CELERY_RESULT_CHORD_RETRY_INTERVAL"),
    "result_compression": Setting("str", None, "CELERY_RESULT_COMPRESSION"),
    "result_exchange": Setting("str", "celeryresults", "CELERY_RESULT_EXCHANGE"),
    "result_exchange_type": Setting("str", "direct", "CELERY_RESULT_EXCHANGE_TYPE"),
    "result_expires": Setting("float", datetime.timedelta(days=1), "CELERY_TASK_RESULT_EXPIRES"),
    "result_extended": Setting("bool", False, "CELERY_RESULT_EXTENDED"),
    "result_failure_expires": Setting("float", None, "CELERY_RESULT_FAILURE_EXPIRES"),
    "result_persistent": Setting("bool", None, "CELERY_RESULT_PERSISTENT"),
    "result_serializer": Setting("str", "json", "CELERY_RESULT_SERIALIZER"),
    "s3_access_key_id": Setting("str", None, "S3_ACCESS_KEY_ID"),
    "s3_base_path": Setting("str", None, "S3_BASE_PATH"),
    "s3_bucket": Setting("str", None, "S3_BUCKET"),
    "s3_endpoint_url": Setting("str", None, "S3_ENDPOINT_URL"),
    "s3_region": Setting("str", None, "S3_REGION"),
    "s3_secret_access_key": Setting("str", None, "S3_SECRET_ACCESS_KEY"),
    "security_cert_store": Setting("str", None, "CELERY_SECURITY_CERT_STORE"),
    "security_certificate": Setting("str", None, "CELERY_SECURITY_CERTIFICATE"),
    "security_digest": Setting("str", "sha256", "CELERY_SECURITY_DIGEST"),
    "security_key": Setting("str", None, "CELERY_SECURITY_KEY"),
    "security_key_password": Setting("bytes", None, "CELERY_SECURITY_KEY_PASSWORD"),
    "task_acks_late": Setting("bool", False, "CELERY_ACKS_LATE"),
    "task_acks_on_failure": Setting("bool", None, "CELERY_ACKS_ON_FAILURE"),
    "task_acks_on_failure_or_timeout": Setting("bool", True, "CELERY_ACKS_ON_FAILURE_OR_TIMEOUT"),
    "task_acks_on_timeout": Setting("bool", None, "CELERY_ACKS_ON_TIMEOUT"),
    "task_allow_error_cb_on_chord_header": Setting(
        "bool", False, "CELERY_ALLOW_ERROR_CB_ON_CHORD_HEADER"
    ),
    "task_always_eager": Setting("bool", False, "CELERY_ALWAYS_EAGER"),
    "task_annotations": Setting("any", None, "CELERY_ANNOTATIONS"),
    "task_compression": Setting("str", None, "CELERY_MESSAGE_COMPRESSION"),
    "task_create_missing_queue_exchange_type": Setting(
        "str", None, "CELERY_CREATE_MISSING_QUEUE_EXCHANGE_TYPE"
    ),
    "task_create_missing_queue_type": Setting("str", "classic", "CELERY_CREATE_MISSING_QUEUE_TYPE"),
    "task_create_missing_queues": Setting("bool", True, "CELERY_CREATE_MISSING_QUEUES"),
    "task_default_delivery_mode": Setting("str", 2, "CELERY_DEFAULT_DELIVERY_MODE"),
    "task_default_exchange": Setting("str", None, "CELERY_DEFAULT_EXCHANGE"),
    "task_default_exchange_type": Setting("str", "direct", "CELERY_DEFAULT_EXCHANGE_TYPE"),
    "task_default_priority": Setting("str", None, "CELERY_DEFAULT_PRIORITY"),
    "task_default_queue": Setting("str", "celery", "CELERY_DEFAULT_QUEUE"),
    "task_default_queue_type": Setting("str", "classic", "CELERY_DEFAULT_QUEUE_TYPE"),
    "task_default_rate_limit": Setting("str", None, "CELERY_DEFAULT_RATE_LIMIT"),
    "task_default_routing_key": Setting("str", None, "CELERY_DEFAULT_ROUTING_KEY"),
    "task_eager_propagates": Setting("bool", False, "CELERY_EAGER_PROPAGATES_EXCEPTIONS"),
    "task_ignore_result": Setting("bool", False, "CELERY_IGNORE_RESULT"),
    "task_inherit_parent_priority": Setting("bool", False, "CELERY_INHERIT_PARENT_PRIORITY"),
    "task_protocol": Setting("int", 2, "CELERY_TASK_PROTOCOL"),
    "task_publish_retry": Setting("bool", True, "CELERY_TASK_PUBLISH_RETRY"),
    "task_publish_retry_policy": Setting(
        "dict",
        {"max_retries": 3, "interval_start": 0, "interval_max": 1, "interval_step": 0.2},
        "CELERY_TASK_PUBLISH_RETRY_POLICY",
    ),
    "task_queue_max_priority": Setting("int", None, "CELERY_QUEUE_MAX_PRIORITY"),
    "task_queues": Setting("dict", None, "CELERY_QUEUES"),
    "task_reject_on_worker_lost": Setting("bool", None, "CELERY_REJECT_ON_WORKER_LOST"),
    "task_remote_tracebacks": Setting("bool", False, "CELERY_REMOTE_TRACEBACKS"),
    "task_repr_maxlevels": Setting("int", 3, "CELERY_REPR_MAXLEVELS"),
    "task_retry_on_worker_lost": Setting("bool", False, "CELERY_RETRY_ON_WORKER_LOST"),
    "task_routes": Setting("any", None, "CELERY_ROUTES"),
    "task_send_sent_event": Setting("bool", False, "CELERY_SEND_TASK_SENT_EVENT"),
    "task_serializer": Setting("str", "json", "CELERY_TASK_SERIALIZER"),
    "task_soft_time_limit": Setting("float", None, "CELERYD_TASK_SOFT_TIME_LIMIT"),
    "task_store_eager_result": Setting("bool", False, "CELERY_STORE_EAGER_RESULT"),
    "task_store_errors_even_if_ignored": Setting(
        "bool", False, "CELERY_STORE_ERRORS_EVEN_IF_IGNORED"
    ),
    "task_time_limit": Setting("float", None, "CELERYD_TASK_TIME_LIMIT"),
    "task_track_started": Setting("bool", False, "CELERY_TRACK_STARTED"),
    "timezone": Setting("str", None, "CELERY_TIMEZONE"),
    "worker_agent": Setting("str", None, "CELERYD_AGENT"),
    "worker_autoscaler": Setting("str", "celery.worker.autoscale:Autoscaler", "CELERYD_AUTOSCALER"),
    "worker_cancel_long_running_tasks_on_connection_loss": Setting(
        "bool", False, "CELERYD_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS"
    ),
    "worker_concurrency": Setting("any", None, "CELERYD_CONCURRENCY"),
    "worker_consumer": Setting("str", "celery.worker.consumer:Consumer", "CELERYD_CONSUMER"),
    "worker_deduplicate_successful_tasks": Setting(
        "bool", False, "CELERYD_DEDUPLICATE_SUCCESSFUL_TASKS"
    ),
    "worker_detect_quorum_queues": Setting("bool", True, "CELERYD_DETECT_QUORUM_QUEUES"),
    "worker_direct": Setting("bool", False, "CELERY_WORKER_DIRECT"),
    "worker_disable_prefetch": Setting("bool", False, "CELERYD_DISABLE_PREFETCH"),
    "worker_disable_rate_limits": Setting("bool", False, "CELERY_DISABLE_RATE_LIMITS"),
    "worker_enable_prefetch_count_reduction": Setting(
        "bool", True, "CELERYD_ENABLE_PREFETCH_COUNT_REDUCTION"
    ),
    "worker_enable_remote_control": Setting("bool", True, "CELERY_ENABLE_REMOTE_CONTROL"),
    "worker_enable_soft_shutdown_on_idle": Setting(
        "bool", False, "CELERYD_ENABLE_SOFT_SHUTDOWN_ON_IDLE"
    ),
    "worker_eta_task_limit": Setting("int", None, "CELERYD_ETA_TASK_LIMIT"),
    "worker_hijack_root_logger": Setting("bool", True, "CELERYD_HIJACK_ROOT_LOGGER"),
    "worker_log_color": Setting("bool", None, "CELERYD_LOG_COLOR"),
    "worker_log_datefmt": Setting("str", None, "CELERYD_LOG_DATEFMT"),
    "worker_log_format": Setting("str", LOG_FORMAT, "CELERYD_LOG_FORMAT"),
    "worker_lost_wait": Setting("float", 10.0, "CELERYD_WORKER_LOST_WAIT"),
    "worker_max_memory_per_child": Setting("int", None, "CELERYD_MAX_MEMORY_PER_CHILD"),
    "worker_max_tasks_per_child": Setting("int", None, "CELERYD_MAX_TASKS_PER_CHILD"),
    "worker_pool": Setting("str", "prefork", "CELERYD_POOL"),
    "worker_pool_putlocks": Setting("bool", True, "CELERYD_POOL_PUTLOCKS"),
    "worker_pool_restarts": Setting("bool", False, "CELERYD_POOL_RESTARTS"),
    "worker_pool_start_method": Setting("str", "fork", "CELERYD_POOL_START_METHOD"),
    "worker_prefetch_multiplier": Setting("int", 4, "CELERYD_PREFETCH_MULTIPLIER"),
    "worker_proc_alive_timeout": Setting("float", 4.0, "CELERYD_PROC_ALIVE_TIMEOUT"),
    "worker_redirect_stdouts": Setting("bool", True, "CELERY_REDIRECT_STDOUTS"),
    "worker_redirect_stdouts_level": Setting("str", "WARNING", "CELERY_REDIRECT_STDOUTS_LEVEL"),
    "worker_send_task_events": Setting("bool", False, "CELERY_SEND_EVENTS"),
    "worker_soft_shutdown_timeout": Setting("float", 0.0, "CELERYD_SOFT_SHUTDOWN_TIMEOUT"),
    "worker_state_db": Setting("str", None, "CELERYD_STATE_DB"),
    "worker_task_log_datefmt": Setting("str", None, "CELERYD_TASK_LOG_DATEFMT"),
    "worker_task_log_format": Setting("str", TASK_LOG_FORMAT, "CELERYD_TASK_LOG_FORMAT"),
    "worker_timer": Setting("str", None, "CELERYD_TIMER"),
    "worker_timer_precision": Setting("float", 1.0, "CELERYD_TIMER_PRECISION"),
}

NEW_NAMES = {setting.old_name: name for name, setting in SETTINGS.items()}
"""Old upper-case name to new name."""

WITHOUT_DEFAULT = frozenset(
    {
        "cassandra_secure_bundle_path",
        "dynamodb_endpoint_url",
        "firestore_project",
        "gcs_threadpool_maxsize",
    }
)
"""Settings that Celery documents and reads, and has no default of."""
