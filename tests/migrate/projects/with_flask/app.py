from flask import Flask, jsonify, request

from celery import Celery, Task


def make_celery(flask):
    class FlaskTask(Task):
        def __call__(self, *args, **kwargs):
            with flask.app_context():
                return self.run(*args, **kwargs)

    celery = Celery(flask.name, task_cls=FlaskTask)
    celery.conf.update(
        BROKER_URL=flask.config["BROKER_URL"],
        CELERY_RESULT_BACKEND="cache+memory://",
        CELERY_ALWAYS_EAGER=True,
    )
    celery.set_default()
    return celery


web = Flask("shop")
web.config.update(BROKER_URL="memory://", GREETING="hello")
celery = make_celery(web)


@celery.task
def greet(name):
    from flask import current_app

    return current_app.config["GREETING"] + " " + name


@web.post("/greet")
def greet_view():
    return jsonify(greet.delay(request.json["name"]).get())
