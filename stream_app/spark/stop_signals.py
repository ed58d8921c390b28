"""Turns SIGINT and SIGTERM into a request to stop, whichever process of the driver they reach.

Under ``spark-submit`` the process that a user or a supervisor knows is the JVM, and Python is its
child. Left alone, the JVM would answer a signal by ending at once, in the middle of an epoch.

Source: `sun.misc.Signal`, which Spark uses likewise (`org.apache.spark.util.SignalUtils`).
"""

from __future__ import annotations

import signal
import threading
from typing import Any

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class _JvmHandler:
    """What the JVM calls in a thread of its own."""

    def __init__(self, stop_requested: threading.Event) -> None:
        self._stop_requested = stop_requested

    def handle(self, _: Any) -> None:
        """Implements `sun.misc.SignalHandler`."""
        self._stop_requested.set()

    class Java:
        """Tells Py4J what this class implements."""

        implements = ("sun.misc.SignalHandler",)


def stop_on_signals(spark: SparkSession, stop_requested: threading.Event) -> None:
    """Set the event when Python or the JVM is asked to end; call it in the main thread."""
    for number in SIGNALS:
        signal.signal(number, lambda *_: stop_requested.set())
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    handler = _JvmHandler(stop_requested)
    jvm_signals = gateway.jvm.sun.misc
    for number in SIGNALS:
        jvm_signals.Signal.handle(jvm_signals.Signal(number.name.removeprefix("SIG")), handler)
