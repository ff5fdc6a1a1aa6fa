from app import celery, web


def test_a_view_calls_a_task():
    answer = web.test_client().post("/greet", json={"name": "you"})
    assert answer.json == "hello you"


def test_the_configuration_of_flask():
    assert celery.conf.broker_url == "memory://"
    assert celery.conf.task_always_eager is True
