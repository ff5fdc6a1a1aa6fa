from celery import Celery

app = Celery("flat")
app.config_from_object("celeryconfig")


@app.task
def add(x, y):
    return x + y


@app.task(name="tasks.slow", ignore_result=True)
def slow():
    return "done"


@app.task(bind=True, max_retries=2, default_retry_delay=0)
def flaky(self, until):
    if self.request.retries < until:
        raise self.retry(exc=ValueError("not yet"))
    return self.request.retries
