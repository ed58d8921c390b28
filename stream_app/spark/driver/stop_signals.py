"""Turns SIGINT and SIGTERM into a request to stop, whichever process of the driver they reach.

Under ``spark-submit`` the process that a user or a supervisor knows is the JVM, and Python is its
child. Left alone, the JVM would answer a signal by ending at once, in the middle of an epoch.

SIGTERM, a supervisor's, waits for the running epoch, however long it takes. SIGINT is Ctrl-C of a
user at a terminal: after `_STOP_WAIT_S`, or at the second Ctrl-C, both processes end at once. That
is as safe as SIGKILL: the next start repeats the epoch.

Source: `sun.misc.Signal`, which Spark uses likewise (`org.apache.spark.util.SignalUtils`).
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from stream_app.spark.driver.jvm_access import enable_callbacks, jvm

_LOG = logging.getLogger(__name__)
SIGNALS = (signal.SIGTERM, signal.SIGINT)
INTERRUPTED = 130
_STOP_WAIT_S = 2.0
_HOOKS_S = 1.0
"""Seconds for the JVM's shutdown hooks; then the process ends without them."""
_ONE_PRESS_S = 0.7
"""The longest delay with which one Ctrl-C reaches both Python and the JVM."""


@dataclass(slots=True)
class _StopHandler:
    """The handler of the signals; Python's main thread and threads of the JVM call it."""

    stop_requested: threading.Event
    jvm: Any
    _first_press_at_s: float | None = field(init=False, default=None)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)

    def on_signal(self, signal_number: int) -> None:
        self.stop_requested.set()
        if signal_number != signal.SIGINT:
            return
        now_s = time.monotonic()
        with self._lock:
            first_press_at_s = self._first_press_at_s
            if first_press_at_s is None:
                self._first_press_at_s = now_s
        if first_press_at_s is None:
            threading.Thread(target=self._end_later, name="ctrl-c", daemon=True).start()
        elif now_s - first_press_at_s > _ONE_PRESS_S:
            threading.Thread(target=self._end, name="ctrl-c again", daemon=True).start()

    def _end_later(self) -> None:
        threading.Event().wait(_STOP_WAIT_S)
        self._end()

    def _end(self) -> None:
        """End both processes at once, without their output."""
        _LOG.warning("aborted: the next start repeats the epoch")
        null_device = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null_device, 1)
        os.dup2(null_device, 2)
        threading.Thread(target=self._ask_jvm, daemon=True).start()
        threading.Event().wait(_HOOKS_S)
        try:
            self.jvm.java.lang.Runtime.getRuntime().halt(INTERRUPTED)
        finally:
            os._exit(INTERRUPTED)

    def _ask_jvm(self) -> None:
        with contextlib.suppress(Py4JError):  # the JVM ended before it could answer
            self.jvm.java.lang.System.exit(INTERRUPTED)


class _JvmHandler:
    """A handler that the JVM calls in a thread of the JVM."""

    def __init__(self, stop: _StopHandler, signal_number: int) -> None:
        self._stop = stop
        self._signal_number = signal_number

    def handle(self, _: Any) -> None:
        """Handle a signal as a `sun.misc.SignalHandler`."""
        self._stop.on_signal(self._signal_number)

    class Java:
        """The Java interface of the handler, for Py4J."""

        implements = ("sun.misc.SignalHandler",)


def stop_on_signals(spark: SparkSession, stop_requested: threading.Event) -> None:
    """Set the event when Python or the JVM receives a stop signal. Call it in the main thread."""
    java = jvm(spark)
    stop = _StopHandler(stop_requested, java)
    for signal_number in SIGNALS:
        signal.signal(signal_number, lambda signal_received, _: stop.on_signal(signal_received))
    enable_callbacks(spark)
    jvm_signals = java.sun.misc
    for signal_number in SIGNALS:
        name = signal_number.name.removeprefix("SIG")
        jvm_signals.Signal.handle(jvm_signals.Signal(name), _JvmHandler(stop, signal_number))
