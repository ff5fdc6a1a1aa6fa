"""Options of tasks that need no thought: those of both, of the engine alone, and of neither."""

__all__ = ["DROPPED", "NATIVE", "RENAMED", "SAME"]

SAME = frozenset({"name", "bind", "queue", "expires"})
NATIVE = frozenset(
    {"ack", "hard_timeout", "rate_scope", "retry", "store_result", "timeout", "max_deliveries"}
)
RENAMED = {"soft_time_limit": "timeout", "time_limit": "hard_timeout"}
# What the engine does anyway, or has no use for.
DROPPED = frozenset(
    {
        "acks_on_failure_or_timeout",
        "lazy",
        "reject_on_worker_lost",
        "send_events",
        "shared",
        "task_track_started",  # that is a setting: as an option it has no effect in Celery either
        "store_errors_even_if_ignored",
        "throws",
        "track_started",
        "trail",
        "typing",
    }
)
