"""The application. Where its broker and its results are is said by the environment."""

from celery import Celery

app = Celery("orders", include=["orders.tasks"])
app.conf.update(
    task_acks_late=True,
    result_expires=3600,
    task_routes={"orders.tasks.pack": {"queue": "warehouse"}},
    timezone="Europe/Berlin",
)
