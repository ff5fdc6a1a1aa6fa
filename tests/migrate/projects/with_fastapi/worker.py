from celery import Celery

worker = Celery("api", broker="memory://", backend="cache+memory://")
worker.conf.CELERY_ALWAYS_EAGER = True
worker.conf["CELERY_TASK_STORE_EAGER_RESULT"] = False
worker.conf.update({"CELERYD_POOL": "solo", "CELERY_STORE_EAGER_RESULT": True})


@worker.task(bind=True)
def square(self, number):
    return {"number": number * number, "id": self.request.id}
