"""Ends the driver's Python when its JVM has died, and stops the session after the work.

The driver consists of both processes. The system may kill only the JVM, for example when memory
runs out. Then calls to it fail, but Python threads may wait forever for Spark's jobs, and the
interpreter joins them before it exits. So the watch ends the process.

Under ``spark-submit`` Python's output also passes through the JVM. So on Linux the watch keeps the
JVM's standard error open, to report why the driver ends.

Used by every job that has a session. Source: Linux `pidfd_open(2)`, Spark `PythonRunner.scala`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from stream_app.errors import FAILED, JvmEndedError, StreamAppError
from stream_app.spark.driver.jvm_access import jvm_process
from stream_app.spark.driver.session import spark_log_hint

_LOG = logging.getLogger(__name__)
JvmProcess = tuple[int, subprocess.Popen[bytes] | None]
"""The process id, and the process if it is a child of this one."""
GRACE_S = 10.0
"""Time from the JVM's end to the driver's, in which alerts and metrics are still sent."""
_CHECK_INTERVAL_S = 0.5
_CLOSING_WAIT_S = 2.0
"""Seconds to wait for the JVM's end after a lost connection, which precedes it shortly."""


@dataclass(slots=True)
class _JvmWatch:
    """A watch for the JVM's end while the job runs.

    Attributes:
        outlet: the descriptor that replaces the process's outputs after the JVM's end; None: they
            stay.
        is_over: set when the job ends first.
    """

    jvm: _Process
    outlet: int | None
    error: JvmEndedError
    stop_requested: threading.Event
    has_ended: threading.Event = field(default_factory=threading.Event)
    is_over: threading.Event = field(default_factory=threading.Event)
    is_raised: bool = False

    def run(self) -> None:
        try:
            while not self.is_over.is_set():
                if self.jvm.ends_within(_CHECK_INTERVAL_S) and not self.is_over.is_set():
                    if self.outlet is not None:
                        os.dup2(self.outlet, 1)
                        os.dup2(self.outlet, 2)
                    self.has_ended.set()
                    self.stop_requested.set()
                    self._end_process()
        finally:
            self.jvm.close()
            if self.outlet is not None:
                os.close(self.outlet)

    def _end_process(self) -> None:
        threading.Event().wait(GRACE_S)
        if not self.is_raised:
            _LOG.error("%s", self.error)
        for handler in logging.getLogger().handlers:
            handler.flush()
        os._exit(FAILED)


@contextmanager
def watched_session(
    spark: SparkSession,
    stop_requested: threading.Event,
    process_of: Callable[[SparkSession], JvmProcess] = jvm_process,
) -> Iterator[None]:
    """Watch the JVM during the work, and stop the session after it.

    When the JVM dies, the process ends within `GRACE_S`.

    Args:
        stop_requested: is set when the JVM has died.
        process_of: returns the JVM's process.

    Raises:
        JvmEndedError: the JVM has died, whatever error the work itself raised.
    """
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(spark.stop)
        pid, child = process_of(spark)
        watch = _JvmWatch(
            _Process(pid, child), _open_stderr(pid), _jvm_ended_error(pid), stop_requested
        )
        threading.Thread(target=watch.run, name="jvm-watch", daemon=True).start()
        session = cleanup.pop_all()
    try:
        with session:
            yield
    except BaseException as error:
        watch.has_ended.wait(
            _CHECK_INTERVAL_S if isinstance(error, StreamAppError) else _CLOSING_WAIT_S
        )
        if not watch.has_ended.is_set():
            raise
    finally:
        watch.is_over.set()
    if watch.has_ended.is_set():
        watch.is_raised = True
        raise watch.error


def _open_stderr(pid: int) -> int | None:
    """Open the standard error of the JVM through which this process writes; None without one."""
    if os.getppid() != pid:
        return None
    with contextlib.suppress(OSError):  # no Linux, or a socket
        return os.open(f"/proc/{pid}/fd/2", os.O_WRONLY | os.O_APPEND | os.O_NOCTTY)
    return None


class _Process:
    """A process of this machine, which need not be a child."""

    def __init__(self, pid: int, child: subprocess.Popen[bytes] | None) -> None:
        self._pid = pid
        self._child = child
        self._handle: int | None = None
        if hasattr(os, "pidfd_open"):
            with contextlib.suppress(OSError):  # an old kernel, or a sandbox, lacks the call
                self._handle = os.pidfd_open(pid)

    def ends_within(self, seconds: float) -> bool:
        """Wait for the end of the process, and return whether it came in time."""
        if self._handle is not None:
            poller = select.poll()
            poller.register(self._handle, select.POLLIN)
            return bool(poller.poll(seconds * 1000))
        threading.Event().wait(seconds)
        if self._child is not None:
            return self._child.poll() is not None
        try:
            os.kill(self._pid, 0)
        except ProcessLookupError:
            return True
        except OSError:  # the process exists, and is another user's
            return False
        return False

    def close(self) -> None:
        """Close the handle."""
        if self._handle is not None:
            os.close(self._handle)


def _jvm_ended_error(pid: int) -> JvmEndedError:
    return JvmEndedError(
        f"the JVM of this driver, process {pid}, has ended in the middle of the work: it was "
        "killed, or memory ran out",
        where="on the machine of this driver",
        fix="start the job again: it continues where it was. If the system's log (dmesg) says that "
        "memory ran out: lower spark.driver.memory or give the machine more; "
        f"{spark_log_hint(os.environ)}",
    )
