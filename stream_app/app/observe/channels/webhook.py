"""Sends notices of a job to a receiver by HTTP.

`Webhook` sends a notice when a job stops, holds a table back, or quarantines records. A separate
thread sends notices, with a timeout and a few attempts each, so that no epoch waits for the
receiver. If the receiver is unavailable for long, the oldest notices are dropped.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import queue
import threading
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit

from stream_app import __version__
from stream_app.app.observe.channels.listener import JobListener
from stream_app.checkpoint.held_table import HeldTable
from stream_app.checkpoint.job_state import JobWarning
from stream_app.clock import Clock
from stream_app.epochs.rounds.table_listener import EpochReport
from stream_app.network.http_request import send
from stream_app.quarantine.quarantine_writer import QuarantineReport

_LOG = logging.getLogger(__name__)
QUEUE_MAX = 100
TIMEOUT_S = 10.0
PAUSES_S = (1.0, 5.0, 20.0)
"""How long to wait before each further attempt, in seconds."""
QUARANTINE_PAUSE_S = 600.0
"""The time between two notices about one table's quarantine. A notice counts the records since."""
LAST_WAIT_S = 15.0
"""How long an ending job waits for its last notices."""
SIGNATURE = "X-Stream-App-Signature"
_TOO_MANY_REQUESTS_STATUS = 429


@dataclass(frozen=True, slots=True)
class Receiver:
    """The address of notices, perhaps with a user; `secret` signs the notices unless it is None."""

    url: str = field(repr=False)
    secret: str | None = field(default=None, repr=False)

    def request(self, notice: Mapping[str, object]) -> urllib.request.Request:
        """Return the HTTP request with a notice."""
        body = json.dumps(notice, ensure_ascii=False).encode()
        headers = {"Content-Type": "application/json", "User-Agent": f"stream_app/{__version__}"}
        if self.secret is not None:
            digest = hmac.new(self.secret.encode(), body, hashlib.sha256).hexdigest()
            headers[SIGNATURE] = f"sha256={digest}"
        parts = urlsplit(self.url)
        if parts.username is not None:  # urllib would take it as a part of the host name
            user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            headers["Authorization"] = f"Basic {b64encode(user.encode()).decode()}"
        url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        return urllib.request.Request(url, body, headers, method="POST")


@dataclass(slots=True)
class _UnreportedRecords:
    """The number of a table's records that were quarantined since its last notice."""

    sent_at_s: float | None = None
    reasons: dict[str, int] = field(default_factory=dict)

    def is_due(self, now_s: float) -> bool:
        is_pausing = self.sent_at_s is not None and now_s - self.sent_at_s < QUARANTINE_PAUSE_S
        return bool(self.reasons) and not is_pausing


@dataclass(slots=True)
class Webhook(JobListener):
    """A sender of notices, which it creates from a job's events.

    Attributes:
        job: the job's name, which each notice contains.
        pauses_s: how long to wait before each further attempt.
        hide: replaces the configuration's secrets in a text.
    """

    receiver: Receiver
    job: str
    clock: Clock
    pauses_s: tuple[float, ...] = PAUSES_S
    timeout_s: float = TIMEOUT_S
    hide: Callable[[str], str] = str
    _queue: queue.Queue[Mapping[str, object] | None] = field(
        init=False, default_factory=lambda: queue.Queue(QUEUE_MAX)
    )
    _unreported_records: dict[str, _UnreportedRecords] = field(init=False, default_factory=dict)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)
    _held_names: set[str] = field(init=False, default_factory=set)
    _end_event: threading.Event = field(init=False, default_factory=threading.Event)
    _thread: threading.Thread | None = field(init=False, default=None)
    _problem: str | None = field(init=False, default=None)

    def begin(self) -> None:
        """Start the thread that sends."""
        self._thread = threading.Thread(target=self._send_all, name="webhook", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Send the waiting notices, wait for them for a while, and stop."""
        self._notify_of_records(skips_wait=True)
        self._end_event.set()
        self._enqueue(None)
        if self._thread is not None:
            self._thread.join(LAST_WAIT_S)

    def notify_stop(self, error: BaseException | None) -> None:
        """Send a notice that the job stops, because of an error or on request."""
        reason = "it was asked to" if error is None else self.hide(str(error))
        self._notify("stopped", {"reason": reason, "is_error": error is not None})

    def on_epoch(self, table: str, report: EpochReport) -> None:
        """Report the records that an epoch has quarantined."""
        if report.quarantine_report is not None:
            self.on_quarantined_messages(table, report.quarantine_report)

    def on_quarantined_messages(self, table: str, quarantine_report: QuarantineReport) -> None:
        """Report quarantined records, at once and then at most every ten minutes."""
        with self._lock:
            records = self._unreported_records.setdefault(table, _UnreportedRecords())
            for reason, count in quarantine_report.reasons.items():
                records.reasons[reason] = records.reasons.get(reason, 0) + count
        self._notify_of_records()

    def on_held_table(self, table: str, held_table: HeldTable | None) -> None:
        """Report that an error holds a table back, or that the table has all epochs again."""
        if held_table is None:
            if table in self._held_names:
                self._held_names.remove(table)
                self._notify("caught_up", {"table": table})
        elif held_table.has_failed and table not in self._held_names:
            self._held_names.add(table)
            reason = self.hide(held_table.reason)
            self._notify(
                "held", {"table": table, "since_epoch": held_table.since_epoch, "reason": reason}
            )

    def on_heartbeat(self) -> None:
        """Send notices about quarantined records that have become due."""
        self._notify_of_records()

    def problem(self) -> JobWarning | None:
        """Return a warning if the receiver did not accept the last notice, or None."""
        if self._problem is None:
            return None
        return JobWarning(problem=self._problem, fix="correct stream.webhook-url, or leave it out")

    def _notify_of_records(self, *, skips_wait: bool = False) -> None:
        """Send a notice of the records quarantined since the last one; two threads may call it."""
        now_s = self.clock.steady_seconds()
        with self._lock:
            for table, records in list(self._unreported_records.items()):
                if records.is_due(now_s) or (skips_wait and records.reasons):
                    record_count = sum(records.reasons.values())
                    notice: dict[str, object] = {"table": table, "records": record_count}
                    self._notify("quarantine", {**notice, "reasons": records.reasons})
                    self._unreported_records[table] = _UnreportedRecords(sent_at_s=now_s)

    def _notify(self, event: str, notice_fields: Mapping[str, object]) -> None:
        time_ms = self.clock.now_ms()
        self._enqueue({"event": event, "job": self.job, "time_ms": time_ms, **notice_fields})

    def _enqueue(self, notice: Mapping[str, object] | None) -> None:
        while True:
            try:
                self._queue.put_nowait(notice)
            except queue.Full:
                with suppress(queue.Empty):  # the thread that sends has just taken it
                    dropped_notice: Any = self._queue.get_nowait()
                    _LOG.warning(
                        "the webhook is behind: a notice is dropped: %s", dropped_notice["event"]
                    )
            else:
                return

    def _send_all(self) -> None:
        while (notice := self._queue.get()) is not None:
            self._send(notice)

    def _send(self, notice: Mapping[str, object]) -> None:
        for pause_s in (*self.pauses_s, None):
            try:
                request = self.receiver.request(notice)
                with send(request, timeout_s=self.timeout_s):
                    self._problem = None
                    return
            except HTTPError as error:
                error.close()
                problem = f"HTTP status {error.code}"
                is_refused = 300 <= error.code < 500 and error.code != _TOO_MANY_REQUESTS_STATUS
            except (OSError, HTTPException, ValueError) as error:  # no answer, or no HTTP
                problem = str(getattr(error, "reason", error))
                is_refused = False
            if is_refused or pause_s is None:
                break
            self._end_event.wait(pause_s)  # an ending job tries again at once
        self._problem = f"the webhook did not take a notice of {notice['event']!r}: {problem}"
        _LOG.warning("%s", self._problem)
