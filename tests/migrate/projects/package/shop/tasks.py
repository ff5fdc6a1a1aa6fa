from celery import current_app, shared_task
from celery.utils.log import get_task_logger

logger = get_task_logger(__name__)


@shared_task(autoretry_for=(ConnectionError,), retry_backoff=False, default_retry_delay=0)
def fetch(url):
    logger.info("fetching %s", url)
    return len(url)


@shared_task
def queue():
    return current_app.conf["CELERY_DEFAULT_QUEUE"]
