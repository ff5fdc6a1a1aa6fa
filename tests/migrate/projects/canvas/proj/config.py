from celery.schedules import crontab

BROKER_URL = "memory://"
CELERY_RESULT_BACKEND = "cache+memory://"
CELERY_ALWAYS_EAGER = True
CELERY_TIMEZONE = "Europe/Vienna"
CELERYBEAT_SCHEDULE = {
    "sweep": {"task": "proj.tasks.sweep", "schedule": crontab(minute="*/5")},
    "tick": {"task": "proj.tasks.sweep", "schedule": 30.0, "args": (1,)},
}
CELERYBEAT_SCHEDULE["tick"]["options"] = {"queue": "ticks"}
