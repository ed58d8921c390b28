"""The watch over the JVM ends together with the job."""

from __future__ import annotations

import subprocess
import threading
from types import SimpleNamespace
from typing import Any

from stream_app.spark.driver.jvm_watch import watched_session

SESSION: Any = SimpleNamespace(stop=lambda: None)


def test_a_jvm_that_ends_after_the_work_stops_nothing() -> None:
    child = subprocess.Popen(["sleep", "0.2"])
    stop_requested, earlier = threading.Event(), set(threading.enumerate())
    with watched_session(SESSION, stop_requested, lambda _: (child.pid, child)):
        [watch] = {
            thread for thread in threading.enumerate() if thread.name == "jvm-watch"
        } - earlier
    child.wait()
    watch.join(60)
    assert not watch.is_alive()
    assert not stop_requested.is_set()
