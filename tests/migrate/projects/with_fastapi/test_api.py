from api import api
from fastapi.testclient import TestClient
from worker import worker

from celery import states


def test_a_job_is_started_and_asked_for():
    client = TestClient(api)
    started = client.post("/square/7").json()
    assert client.get("/square/" + started["id"]).json() == {
        "state": states.SUCCESS,
        "number": 49,
    }


def test_settings():
    assert worker.conf.worker_pool == "solo"


def test_settings_of_celery_alone():
    assert worker.conf.task_store_eager_result is True
