from celery import Celery

from .config import Live

app = Celery("shop")
app.config_from_object(Live)
app.conf.update(CELERY_TRACK_STARTED=True)
app.conf.CELERYD_PREFETCH_MULTIPLIER = 1
