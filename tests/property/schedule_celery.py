"""Run with a real Celery: when its beat would run crontab schedules.

Reads a JSON list of ``[zone, expression, begin, end]`` from its input, epoch seconds; writes a JSON
list of lists of epoch seconds. A beat is played that wakes up when its schedule says so, and at
least every five minutes, as the real one does.
"""

import json
import sys
from datetime import datetime, timedelta, timezone

import celery
from celery.schedules import crontab

LONGEST_SLEEP = 300.0
ROUNDING = 0.001


def runs(zone: str, expression: str, begin: float, end: float) -> list[float]:
    app = celery.Celery("oracle", set_as_current=False)
    app.conf.update(timezone=zone, enable_utc=True)
    fields = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
    now = datetime.fromtimestamp(begin, timezone.utc)
    options = dict(zip(fields, expression.split(), strict=True))
    schedule = crontab(app=app, nowfun=lambda: now.astimezone(app.timezone), **options)
    last, found = now, []
    while now.timestamp() < end:
        due, seconds = schedule.is_due(last)
        if due:
            found.append(now.timestamp())
            last = now
        now += timedelta(seconds=min(max(seconds, 0.0) + ROUNDING, LONGEST_SLEEP))
    return found


if __name__ == "__main__":
    if "taskmq" in celery.__version__:
        sys.exit("this is not Celery")
    sys.stdout.write(json.dumps([runs(*wanted) for wanted in json.load(sys.stdin)]))
