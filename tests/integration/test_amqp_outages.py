"""A broker in trouble: producers hear of it in time, jobs run nevertheless, and delivery by message
goes on when it is over."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest
from kombu.connection import Connection
from tests import services
from tests.waiting import PATIENCE, wait_for

from taskmq.envelope import Envelope, Sealed, seal
from taskmq.errors import TransportUnavailable
from taskmq.ids import new_id
from taskmq.plugins import open_transport
from taskmq.states import JobState
from taskmq.transport import Ack, Delivery, Reservation, Settled, Transport
from taskmq.transports.amqp.transport import AmqpTransport

PUBLISH_TIMEOUT = 1.0
SLACK = 10.0
"""Seconds that a busy machine may add."""
ALARM = "rabbit_alarm:{}_alarm({})"
MEMORY = "{resource_limit, memory, node()}"
TIMED_OUT = "Timeout value used"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of 127.0.0.1, signed by itself; its key lies beside it."""
    path = tmp_path_factory.mktemp("tls") / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(path.with_name("key.pem")), "-out", str(path)]
    subprocess.run([*command, *names, *files], check=True, capture_output=True)
    return path


@pytest.fixture(scope="module")
def tls_port() -> int:
    return services.service.free_port()


@pytest.fixture(scope="module")
def server(
    require_server: Callable[[str], Path], certificate: Path, tls_port: int
) -> Iterator[services.RabbitMQ]:
    """One for all of these tests; each leaves it in order."""
    require_server(services.RabbitMQ.program)
    require_server("openssl")
    options: dict[str, str | int] = {
        "listeners.ssl.1": f"127.0.0.1:{tls_port}",
        "ssl_options.cacertfile": str(certificate),
        "ssl_options.certfile": str(certificate),
        "ssl_options.keyfile": str(certificate.with_name("key.pem")),
    }
    with services.RabbitMQ(options) as server:
        yield server


@pytest.fixture
def vhost_url(server: services.RabbitMQ, request: pytest.FixtureRequest) -> Iterator[str]:
    name = f"outage-{new_id().lower()}"
    yield server.create_vhost(name)
    server.delete_vhost(name)


@pytest.fixture
def url(vhost_url: str, tmp_path: Path) -> str:
    return (
        f"{vhost_url}?publish_timeout={PUBLISH_TIMEOUT}&connect_timeout={PUBLISH_TIMEOUT}"
        f"&state=sqlite:///{tmp_path}/jobs.db"
    )


def opened(url: str) -> closing[AmqpTransport]:
    return closing(cast("AmqpTransport", open_transport(url)))


def job() -> Sealed:
    envelope = Envelope(v=1, id=new_id(), task="demo", queue="q", enqueued_at=time.time())
    return seal(envelope, limit=1 << 20)


def wanted(limit: int = 10) -> Reservation:
    return Reservation(queues={"q": 1}, worker="w", lease=60.0, limit=limit)


def take(transport: Transport, count: int) -> list[Delivery]:
    """Reserve until there are so many."""
    taken: list[Delivery] = []

    def is_enough() -> bool:
        taken.extend(transport.reserve(wanted(count - len(taken))))
        return len(taken) >= count

    wait_for(is_enough, f"{count} jobs")
    return taken


def refused(transport: AmqpTransport, match: str) -> None:
    """An enqueue fails in time, and has stored nothing."""
    before = transport.stats()
    started = time.monotonic()
    with pytest.raises(TransportUnavailable, match=match) as caught:
        transport.enqueue([job()])
    assert time.monotonic() - started < 2 * PUBLISH_TIMEOUT + SLACK
    assert ":guest@" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert transport.stats() == before


def enqueues_again(transport: AmqpTransport) -> None:
    def is_taken() -> bool:
        try:
            return bool(transport.enqueue([job()]))
        except TransportUnavailable:
            return False

    wait_for(is_taken, "the end of the trouble")


def comes_by_message_again(transport: AmqpTransport) -> None:
    """A worker is connected to the broker again."""

    def is_by_message() -> bool:
        before = transport.deliveries.by_message
        enqueues_again(transport)
        taken = take(transport, 1)
        assert set(transport.settle([Ack(each) for each in taken])) == {Settled.DONE}
        return transport.deliveries.by_message > before

    wait_for(is_by_message, "a message")


def test_refused_connections(tmp_path: Path) -> None:
    port = services.service.free_port()
    url = f"amqp://guest:secret@127.0.0.1:{port}/?state=sqlite:///{tmp_path}/jobs.db"
    with opened(url) as transport:
        refused(transport, "refuses connections")
        assert not transport.reserve(wanted())


def test_of_several_brokers_the_next_that_answers_is_taken(vhost_url: str, tmp_path: Path) -> None:
    nobody = f"amqp://127.0.0.1:{services.service.free_port()}//"
    for urls in ([nobody, vhost_url], [vhost_url, nobody]):
        with opened(f"{';'.join(urls)}?state=sqlite:///{tmp_path}/jobs.db") as transport:
            transport.enqueue([job()])
            take(transport, 1)
            comes_by_message_again(transport)


def test_without_the_broker_jobs_are_stored_if_that_is_wanted(tmp_path: Path) -> None:
    port = services.service.free_port()
    url = f"amqp://127.0.0.1:{port}/?without_broker=store&state=sqlite:///{tmp_path}/jobs.db"
    with opened(url) as transport:
        transport.enqueue([job(), job()])
        transport.enqueue([job()])
        taken = transport.reserve(wanted())
        assert len(taken) == 3
        assert set(transport.settle([Ack(each) for each in taken])) == {Settled.DONE}


def test_wrong_password_and_virtual_host(server: services.RabbitMQ, tmp_path: Path) -> None:
    state = f"state=sqlite:///{tmp_path}/jobs.db"
    for url in (server.url.replace("guest:guest", "guest:wrong"), server.url_of("missing")):
        with opened(f"{url}?{state}") as transport:
            refused(transport, "refuses access")


def test_tls(server: services.RabbitMQ, url: str, certificate: Path, tls_port: int) -> None:
    """With a certificate that is trusted, and not without."""
    secure = url.replace("amqp:", "amqps:").replace(f":{server.port}/", f":{tls_port}/")
    with opened(secure) as transport:
        refused(transport, "TLS.*certificate verify failed")
    with opened(f"{secure}&ca={certificate}") as transport:
        comes_by_message_again(transport)


@pytest.mark.parametrize("is_used_before", [False, True])
def test_a_black_hole(server: services.RabbitMQ, url: str, is_used_before: bool) -> None:
    """Packets disappear; no connection is reset."""
    with services.Proxy(server) as proxy, opened(proxy.through(url)) as transport:
        if is_used_before:
            comes_by_message_again(transport)
            transport.enqueue([job()])
            time.sleep(1.1)  # the last answer must be too old to be trusted
        proxy.black_hole()
        refused(transport, "did not answer|did not confirm")
        if is_used_before:
            taken = take(transport, 1)  # from the store
            assert transport.settle([Ack(taken[0])]) == [Settled.DONE]
        proxy.heal()
        comes_by_message_again(transport)


def test_memory_alarm(server: services.RabbitMQ, url: str) -> None:
    with opened(url) as transport:
        comes_by_message_again(transport)
        server.evaluate(ALARM.format("set", "{" + MEMORY + ", []}"))
        try:
            time.sleep(1.1)  # the last answer must be too old to be trusted
            refused(transport, "memory or disk alarm|did not confirm")
            stored = transport.stats(["q"])[0].ready
            taken = take(transport, stored) if stored else []
            transport.settle([Ack(each) for each in taken])
        finally:
            server.evaluate(ALARM.format("clear", MEMORY))
        comes_by_message_again(transport)


def test_connections_closed_by_an_operator(server: services.RabbitMQ, url: str) -> None:
    close = 'rabbit_networking:close_all_user_connections(<<"guest">>, <<"maintenance">>)'
    with opened(url) as transport:
        comes_by_message_again(transport)
        held = transport.enqueue([job()])
        taken = take(transport, 1)
        for _ in range(3):
            server.evaluate(close)
            comes_by_message_again(transport)
        assert taken[0].job_id == held[0].job_id
        assert transport.settle([Ack(taken[0])]) == [Settled.DONE]


def test_a_listener_hears_of_jobs_without_the_broker(server: services.RabbitMQ, url: str) -> None:
    with services.Proxy(server) as proxy, opened(proxy.through(url)) as worker:
        comes_by_message_again(worker)
        proxy.refuse()
        proxy.reset()
        listener = worker.listen(["q"])
        listener.clear()
        assert not worker.reserve(wanted())
        with opened(url) as producer:
            producer.enqueue([job()])
        assert listener.wait(PATIENCE)
        assert len(take(worker, 1)) == 1
        listener.close()
        proxy.heal()


def test_the_broker_is_killed_and_restarted(server: services.RabbitMQ, url: str) -> None:
    """A worker and a producer go on all the time, as far as they can; nothing is lost."""
    with opened(url) as producer, opened(url) as worker:
        comes_by_message_again(worker)
        stored: list[str] = []
        stop = threading.Event()

        def produce() -> None:
            while not stop.is_set():
                try:
                    stored.extend(answer.job_id for answer in producer.enqueue([job()]))
                except TransportUnavailable:
                    stop.wait(0.05)

        thread = threading.Thread(target=produce)
        thread.start()
        try:
            wait_for(lambda: len(stored) > 20, "jobs")
            server.kill()
            settle_all(worker)
            server.start()
            before = len(stored)
            wait_for(lambda: len(stored) > before + 20, "jobs after the restart")
        finally:
            stop.set()
            thread.join(PATIENCE)
        comes_by_message_again(worker)
        wait_for(lambda: settle_all(worker) == 0, "the last job")
        records = worker.get(stored)
        assert {record and record.state for record in records} == {JobState.SUCCEEDED}
        assert {record and record.deliveries for record in records} == {1}


def test_what_waits_at_a_broker_that_is_killed_comes_from_the_store(
    server: services.RabbitMQ, url: str
) -> None:
    with opened(url) as producer:
        stored = [answer.job_id for answer in producer.enqueue([job() for _ in range(250)])]
    server.kill()
    server.start()
    settled: list[int] = []

    def all_settled() -> bool:
        settled.append(settle_all(worker))
        return sum(settled) == len(stored)

    with opened(url) as worker:
        wait_for(all_settled, "the backlog")
        records = worker.get(stored)
        assert {record and record.state for record in records} == {JobState.SUCCEEDED}
        assert {record and record.deliveries for record in records} == {1}


def settle_all(worker: AmqpTransport) -> int:
    taken = worker.reserve(wanted(100))
    assert set(worker.settle([Ack(each) for each in taken])) <= {Settled.DONE}
    return len(taken)


def test_a_task_may_take_longer_than_the_brokers_patience(
    server: services.RabbitMQ, vhost_url: str, tmp_path: Path
) -> None:
    """A message is acknowledged as soon as its job is claimed, so consumer_timeout never strikes;
    it would, for a message that is held for as long."""
    for setting in ("consumer_timeout", "channel_tick_interval"):
        server.evaluate(f"application:set_env(rabbit, {setting}, 1000)")
    url = f"{vhost_url}?patience=5&state=sqlite:///{tmp_path}/jobs.db"
    with closing(cast("AmqpTransport", open_transport(url))) as transport:
        transport.enqueue([job(), job()])
        deliveries = take(transport, 1)
        time.sleep(4.0)  # the task
        assert transport.settle([Ack(each) for each in deliveries]) == [Settled.DONE]
        take(transport, 1)
        assert transport.deliveries.by_message == 2
        states = [
            record.state for record in transport.get([each.job_id for each in deliveries]) if record
        ]
        assert states == [JobState.SUCCEEDED]
    assert TIMED_OUT not in server.log
    with Connection(server.url) as connection:
        channel = connection.channel()
        channel.queue_declare("held", durable=True)
        connection.Producer().publish("x", exchange="", routing_key="held")
        channel.basic_consume("held", callback=lambda message: None)
        wait_for(lambda: TIMED_OUT in server.log, "the timeout of a consumer that holds on")
