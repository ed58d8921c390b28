"""Notices reach a real HTTP server once each, and never delay a job."""

from __future__ import annotations

import errno
import hashlib
import hmac
import json
import logging
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from stream_app.app.config.secrets import Secrets
from stream_app.app.observe.channels.webhook import (
    QUARANTINE_PAUSE_S,
    QUEUE_MAX,
    SIGNATURE,
    Receiver,
    Webhook,
)
from stream_app.checkpoint.held_table import HeldTable
from stream_app.epochs.rounds.table_listener import EpochReport
from stream_app.errors import UsageError
from stream_app.quarantine.quarantine_writer import QuarantineReport
from tests.support.servers.http_receiver import HttpReceiver, http_receiver
from tests.support.tables.small_table import StandingClock

AT_ONCE = (0.0, 0.0, 0.0)


def own_messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the webhook's messages; a thread of an earlier test may still report others."""
    return [record.getMessage() for record in caplog.records if "webhook" in record.name]


def a_webhook(receiver: HttpReceiver, secret: str | None = None) -> Webhook:
    url = f"{receiver.url}/hook/T0001"
    return Webhook(Receiver(url, secret), "shop", StandingClock(1000), AT_ONCE)


def held_table(tries: int) -> HeldTable:
    return HeldTable(since_epoch=7, start={}, reason="no", since_ms=1, retry_ms=None, tries=tries)


def quarantine_report(**reasons: int) -> EpochReport:
    return EpochReport(
        epoch=1, quarantine_report=QuarantineReport(file="f", first_text="", reasons=reasons)
    )


def notices(receiver: HttpReceiver) -> list[dict[str, Any]]:
    return [json.loads(request.body) for request in receiver.requests]


def test_a_job_sends_a_notice_of_each_change_once() -> None:
    with http_receiver() as receiver:
        webhook = a_webhook(receiver)
        webhook.begin()
        webhook.on_held_table("shop.orders", held_table(tries=0))  # it waits for its compactions
        webhook.on_held_table("shop.orders", None)
        webhook.on_held_table("shop.orders", held_table(tries=1))
        webhook.on_held_table("shop.orders", held_table(tries=2))  # the same trouble again
        webhook.on_held_table("shop.orders", None)
        webhook.on_epoch("shop.orders", EpochReport(epoch=1))
        webhook.notify_stop(UsageError("the topic is gone", fix="make it"))
        webhook.end()
        base = {"job": "shop", "time_ms": 1000}
        assert notices(receiver) == [
            {"event": "held", **base, "table": "shop.orders", "since_epoch": 7, "reason": "no"},
            {"event": "caught_up", **base, "table": "shop.orders"},
            {
                "event": "stopped", **base, "reason": "the topic is gone\n  to fix: make it",
                "is_error": True,
            },
        ]  # fmt: skip
        assert {request.path for request in receiver.requests} == {"/hook/T0001"}
        assert receiver.requests[0].headers["Content-Type"] == "application/json"
        assert SIGNATURE not in receiver.requests[0].headers


def test_a_user_in_the_address_becomes_basic_authorization() -> None:
    with http_receiver() as receiver:
        webhook = a_webhook(receiver)
        url = webhook.receiver.url.replace("://", "://shop:p%40ss@")
        webhook.receiver = Receiver(url)
        webhook.begin()
        webhook.notify_stop(None)
        webhook.end()
        [notice] = receiver.requests
        assert notice.path == "/hook/T0001"
        assert notice.headers["Authorization"] == "Basic c2hvcDpwQHNz"  # shop:p@ss
        assert notice.headers["Host"] == receiver.url.removeprefix("http://")


def test_a_stop_on_request_is_not_an_error() -> None:
    with http_receiver() as receiver:
        webhook = a_webhook(receiver)
        webhook.begin()
        webhook.notify_stop(None)
        webhook.end()
        [notice] = notices(receiver)
        assert (notice["reason"], notice["is_error"]) == ("it was asked to", False)


def test_quarantine_growth_is_reported_at_once_and_then_every_ten_minutes() -> None:
    with http_receiver() as receiver:
        webhook = a_webhook(receiver)
        clock = webhook.clock
        webhook.begin()
        webhook.on_epoch("shop.orders", quarantine_report(value=2))
        webhook.on_epoch("shop.orders", quarantine_report(value=1))
        webhook.on_epoch("shop.orders", quarantine_report(value=1, partition=4))
        webhook.on_quarantined_messages(
            "shop", QuarantineReport(file="f", first_text="", reasons={"not-json": 1})
        )
        webhook.on_heartbeat()
        clock.sleep(QUARANTINE_PAUSE_S)
        webhook.on_heartbeat()
        clock.sleep(QUARANTINE_PAUSE_S)
        webhook.on_heartbeat()
        webhook.on_epoch("shop.orders", quarantine_report(value=9))
        webhook.on_epoch("shop.orders", quarantine_report(value=8))
        webhook.end()
        events = [
            (notice["table"], notice["records"], notice["reasons"]) for notice in notices(receiver)
        ]
        assert events == [
            ("shop.orders", 2, {"value": 2}),
            ("shop", 1, {"not-json": 1}),
            ("shop.orders", 6, {"value": 2, "partition": 4}),
            ("shop.orders", 9, {"value": 9}),
            ("shop.orders", 8, {"value": 8}),  # the job ends
        ]


def test_the_body_is_signed() -> None:
    with http_receiver() as receiver:
        webhook = a_webhook(receiver, "swordfish")
        webhook.begin()
        webhook.notify_stop(None)
        webhook.end()
        [request] = receiver.requests
        digest = hmac.new(b"swordfish", request.body, hashlib.sha256).hexdigest()
        assert request.headers[SIGNATURE] == f"sha256={digest}"
    assert "swordfish" not in repr(webhook)
    assert "T0001" not in repr(webhook), "the address is a secret too"


def test_a_notice_is_sent_again_unless_it_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    with http_receiver(503, 429, 200, 404, 200) as receiver:
        webhook = a_webhook(receiver)
        webhook.begin()
        webhook.on_held_table("shop.a", held_table(1))
        webhook.on_held_table("shop.b", held_table(1))
        webhook.on_held_table("shop.c", held_table(1))
        webhook.end()
        assert [notice["table"][-1] for notice in notices(receiver)] == ["a", "a", "a", "b", "c"]
    assert own_messages(caplog) == ["the webhook did not take a notice of 'held': HTTP status 404"]


def test_neither_a_redirect_nor_an_odd_answer_ends_the_sending(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with http_receiver(302, 200) as receiver:
        webhook = a_webhook(receiver)
        webhook.begin()
        webhook.on_held_table("shop.a", held_table(1))
        webhook.on_held_table("shop.b", held_table(1))
        webhook.end()
        assert [notice["table"] for notice in notices(receiver)] == ["shop.a", "shop.b"]
    assert own_messages(caplog) == ["the webhook did not take a notice of 'held': HTTP status 302"]
    with no_http_server() as port:
        webhook = Webhook(Receiver(f"http://127.0.0.1:{port}"), "shop", StandingClock(), AT_ONCE)
        webhook.begin()
        webhook.on_held_table("shop.a", held_table(1))
        webhook.on_held_table("shop.b", held_table(1))
        webhook.end()
    assert len(own_messages(caplog)) == 3
    assert own_messages(caplog)[-1].startswith("the webhook did not take a notice of 'held': ")


@contextmanager
def no_http_server() -> Iterator[int]:
    """Answers each connection with a line that is not HTTP."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(4096)
            self.request.sendall(b"220 smtp.example.org ready\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def test_secrets_are_hidden_in_reasons() -> None:
    with http_receiver() as receiver:
        webhook = a_webhook(receiver)
        webhook.hide = Secrets(["swordfish"]).hide
        webhook.begin()
        webhook.on_held_table("shop.a", replace(held_table(1), reason="no access with swordfish"))
        webhook.notify_stop(UsageError("swordfish is wrong"))
        webhook.end()
        assert [notice["reason"] for notice in notices(receiver)] == [
            "no access with ****",
            "**** is wrong",
        ]


def test_an_absent_receiver_does_not_block_the_job(caplog: pytest.LogCaptureFixture) -> None:
    """The queue of notices is bounded: the webhook drops the oldest ones."""
    caplog.set_level(logging.WARNING)
    with socket.socket() as bound_socket:
        bound_socket.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{bound_socket.getsockname()[1]}"
        webhook = Webhook(Receiver(address), "shop", StandingClock(), AT_ONCE)
        for number in range(QUEUE_MAX + 3):
            webhook.on_held_table(f"shop.t{number}", held_table(1))
        assert len(own_messages(caplog)) == 3
        assert own_messages(caplog)[0] == "the webhook is behind: a notice is dropped: held"
        webhook.begin()
        webhook.end()
    assert own_messages(caplog)[-1] == (
        f"the webhook did not take a notice of 'held': [Errno {errno.ECONNREFUSED}] "
        "Connection refused"
    )
    assert address not in caplog.text
