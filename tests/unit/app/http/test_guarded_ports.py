"""Thousands of strangers' connections to a job's ports take a bounded number of descriptors.

The server is a process of its own that may open 512 files. The strangers are sockets of this one.
"""

from __future__ import annotations

import http.client
import re
import resource
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from stream_app.app.http.connection_guard import WaitStage, connection_to_close, listener_to_close
from tests.support.pages.web_server import rows
from tests.support.suite.polling import wait_until
from tests.support.tables.small_table import small_table

DESCRIPTORS = 512
FILES_MAX = 300
"""Both ports' shares, a backlog, and what the process has anyway."""
STRANGERS = 2_000
TOGETHER = 20
DEADLINE_S = 120.0
HEAD, RESPONSE, EVENTS = WaitStage.HEAD, WaitStage.RESPONSE, WaitStage.EVENTS


@dataclass
class Ports:
    metrics: int
    page: int
    log: Path

    def files(self) -> int:
        """Return the number of files that the process has open."""
        text = self.get(self.metrics, "/metrics")
        [count] = re.findall(r"^open_files (\S+)$", text, re.MULTILINE)
        return int(float(count))

    def get(self, port: int, path: str) -> str:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            assert answer.status == 200
            return answer.read().decode()
        finally:
            connection.close()

    def check(self) -> None:
        """Check that both ports answer, few files are open, and the log is short."""
        assert self.get(self.page, "/healthz")
        assert self.files() < FILES_MAX
        assert len(self.log.read_text().splitlines()) <= 4, self.log.read_text()[:2000]


@pytest.fixture(scope="module", autouse=True)
def many_descriptors() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ports]:
    tmp_path = tmp_path_factory.mktemp("ports")
    table = small_table(tmp_path / "warehouse" / "db.db" / "t", "k INT, v STRING", ("k",))
    table.commit(*rows(*range(1000)))
    log = tmp_path / "log"
    command = [sys.executable, "-m", "tests.support.pages.guarded_ports"]
    with log.open("w") as out, subprocess.Popen(
        [*command, str(tmp_path / "warehouse"), str(DESCRIPTORS)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=out, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdin is not None
        metrics, page = map(int, process.stdout.readline().split())
        yield Ports(metrics, page, log)
        process.stdin.close()
        assert process.wait(DEADLINE_S) == 0


@contextmanager
def strangers(port: int, count: int, first: bytes) -> Iterator[list[socket.socket]]:
    """Connections that send something once."""
    with ExitStack() as stack:
        sockets = []
        for number in range(1, count + 1):
            connection = socket.socket()
            stack.callback(connection.close)
            connection.setblocking(False)
            connection.connect_ex(("127.0.0.1", port))
            sockets.append(connection)
            if number % TOGETHER == 0:  # more would overflow the backlog, and try again in a second
                wait_until(lambda: all_have(select.POLLOUT, sockets[-TOGETHER:]))
        for connection in sockets if first else ():
            send(connection, first)
        yield sockets


def all_have(event: int, connections: list[socket.socket]) -> bool:
    ready = select.poll()
    for connection in connections:
        ready.register(connection, event)
    return len(ready.poll(0)) == len(connections)


def send(connection: socket.socket, data: bytes) -> None:
    with suppress(OSError):  # the server has closed it
        connection.sendall(data)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("port", "count", "first"),
    [
        ("page", STRANGERS, b""),
        ("page", STRANGERS // 5, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: "),
        pytest.param("page", STRANGERS // 5, b"\x16\x03\x01\r\n\r\n", marks=pytest.mark.variant),
        ("metrics", STRANGERS, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: "),
    ],
    ids=["idle-page", "slow-heads-page", "no-http-page", "slow-heads-metrics"],
)  # fmt: skip
def test_many_connections_take_few_descriptors(
    ports: Ports, port: str, count: int, first: bytes
) -> None:
    with strangers(getattr(ports, port), count, first) as sockets:
        ports.check()
        for _ in range(3):
            for connection in sockets if first else ():
                send(connection, b"x")
            ports.check()
        wait_until(lambda: all_have(select.POLLIN, sockets))  # each is closed
        ports.check()
    ports.check()


@pytest.mark.slow
def test_listeners_to_events_do_not_shut_others_out(ports: Ports) -> None:
    listening = b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with strangers(ports.page, STRANGERS // 5, listening):
        ports.check()
        assert "db.t" in ports.get(ports.page, "/")


@pytest.mark.slow
def test_unread_answers_and_bodies_that_never_arrive(ports: Ports) -> None:
    rows_of = b"GET /tables/db.t/rows?limit=1000 HTTP/1.1\r\nHost: localhost\r\n\r\n"
    form = b"POST /actions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000\r\n\r\n"
    scrape = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
    with (
        strangers(ports.page, 200, rows_of),
        strangers(ports.page, 200, form),
        strangers(ports.metrics, 500, scrape),
    ):
        ports.check()


@pytest.mark.slow
def test_the_metrics_port_speaks_http(ports: Ports) -> None:
    def response(request: bytes) -> bytes:
        with socket.create_connection(
            ("127.0.0.1", ports.metrics), timeout=DEADLINE_S
        ) as connection:
            connection.sendall(request)
            received_bytes = bytearray()
            # A server that closes with a part of a long head unread resets the connection.
            with suppress(ConnectionResetError):
                while data := connection.recv(65536):
                    received_bytes += data
            return bytes(received_bytes)

    whole = response(b"GET /metrics?name[]=open_files HTTP/1.1\r\nHost: x\r\n\r\n")
    head, _, body = whole.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"open_files" in body
    assert f"content-length: {len(body)}".encode() in head
    assert response(b"HEAD /metrics HTTP/1.0\r\n\r\n").endswith(b"\r\n\r\n")
    zipped_response = response(b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n")
    assert zipped_response.partition(b"\r\n\r\n")[2].startswith(b"\x1f\x8b")
    for request, status in {
        b"POST /metrics HTTP/1.0\r\n\r\n": b"405",
        b"GET /nothing HTTP/1.0\r\n\r\n": b"404",
        b"GET metrics HTTP/1.0\r\n\r\n": b"404",
        b"GET /metrics HTTP/1.1\r\n\r\n": b"400",
        b"\x00\x01\x02\r\n\r\n": b"400",
        b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 100_000: b"400",
    }.items():
        assert response(request).split(b" ")[1] == status


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stages", "goes"),
    [
        ([HEAD, HEAD], None),
        ([RESPONSE, EVENTS, HEAD, HEAD], 2),
        ([RESPONSE, EVENTS, EVENTS, RESPONSE], 1),
        ([RESPONSE, RESPONSE, RESPONSE, RESPONSE], 0),
    ],
)
def test_a_full_port_closes_waiting_heads_then_events_then_answers(
    stages: list[WaitStage], goes: int | None
) -> None:
    assert connection_to_close(dict(enumerate(stages)), 4) == goes


@pytest.mark.slow
def test_listeners_have_half_of_the_places() -> None:
    assert listener_to_close({1: EVENTS, 2: HEAD, 3: EVENTS}, 4) is None
    assert listener_to_close({1: RESPONSE, 2: EVENTS, 3: EVENTS, 4: EVENTS}, 4) == 2
