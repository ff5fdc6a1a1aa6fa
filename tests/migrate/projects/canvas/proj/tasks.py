from celery import Celery
from proj.base import Counted

app = Celery("proj", config_source="proj.config", task_cls=Counted)


@app.task
def add(x, y):
    return x + y


@app.task
def total(numbers):
    return sum(numbers)


@app.task
def fail():
    raise ValueError("no")


@app.task
def sweep(times=0):
    return times
