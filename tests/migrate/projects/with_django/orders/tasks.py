from django.conf import settings

from celery import shared_task


@shared_task
def total(prices):
    return sum(prices)


@shared_task
def is_eager():
    return getattr(settings, "CELERY_ALWAYS_EAGER", None)
