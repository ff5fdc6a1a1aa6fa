class Base:
    BROKER_URL = "memory://"
    CELERY_RESULT_BACKEND = "cache+memory://"
    CELERY_ALWAYS_EAGER = True
    CELERY_IMPORTS = ("shop.tasks",)


class Live(Base):
    CELERY_DEFAULT_QUEUE = "live"
