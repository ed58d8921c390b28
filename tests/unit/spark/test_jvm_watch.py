"""The watch over the JVM ends with the work."""

from __future__ import annotations

import subprocess
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from stream_app.spark import jvm_watch

SESSION: Any = SimpleNamespace(stop=lambda: None)


def test_a_jvm_that_ends_behind_the_work_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    child = subprocess.Popen(["sleep", "0.2"])
    monkeypatch.setattr(jvm_watch, "jvm_process", lambda _: (child.pid, child))
    stop_requested, earlier = threading.Event(), set(threading.enumerate())
    with jvm_watch.watched_session(SESSION, stop_requested):
        [watch] = {
            thread for thread in threading.enumerate() if thread.name == "jvm-watch"
        } - earlier
    child.wait()
    watch.join(60)
    assert not watch.is_alive()
    assert not stop_requested.is_set()
