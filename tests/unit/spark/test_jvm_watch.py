"""The watch over the JVM ends with the work."""

from __future__ import annotations

import subprocess
import threading

from stream_app.errors import JvmEndedError
from stream_app.spark.jvm_watch import _JvmWatch, _Process


def test_a_jvm_that_ends_behind_the_work_ends_nothing() -> None:
    child = subprocess.Popen(["sleep", "0.2"])
    stop = threading.Event()
    watch = _JvmWatch(_Process(child.pid, child), None, JvmEndedError("gone"), stop)
    looking = threading.Thread(target=watch.run, daemon=True)
    looking.start()
    watch.is_over.set()
    child.wait()
    looking.join(60)
    assert not looking.is_alive()
    assert not stop.is_set()
