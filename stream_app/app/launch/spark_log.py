"""Replaces this process by ``spark-submit``, and redirects Spark's output to a file.

The JVM, Spark's scripts and its workers write to standard error. The job's lines reach standard
output through the JVM. So standard error becomes the file, and the user sees only the job's lines.
`ingest` and `compact` use it.
"""

from __future__ import annotations

import os
import re
import sys
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from stream_app.app.launch.java import checked_java, unicode_environment
from stream_app.spark.driver.session import SPARK_LOG_VARIABLE

_BYTES_MAX = 8 << 20
"""The size in bytes above which the next start renames a log file to ``….1``."""


def become_spark(command: list[str], name: str, location: str) -> NoReturn:
    """Replace this process by ``spark-submit``.

    Args:
        name: the job's name, such as ``ingest shop.orders``, with which the file's name begins.
        location: the job's own folder, which tells jobs of the same name apart.

    Raises:
        UsageError: Java is missing or too old.
    """
    checked_java()  # Spark would report it only in its own log
    log = _open(log_file(os.environ, name, location))
    if log is None:
        print("stream_app: starting Spark", file=sys.stderr)
    else:
        path, descriptor = log
        print(f"stream_app: starting Spark; its own log is {path}", file=sys.stderr)
        os.environ[SPARK_LOG_VARIABLE] = str(path)  # the job's messages name the file
    sys.stdout.flush()
    sys.stderr.flush()
    if log is not None:
        os.dup2(descriptor, 2)
    environ = unicode_environment(os.environ)
    # Spark's own scripts do not find it in a path with spaces.
    environ["SPARK_HOME"] = str(Path(command[0]).parents[1])
    os.execve(command[0], command, environ)


def log_file(environ: Mapping[str, str], name: str, location: str) -> Path | None:
    """Return the file of Spark's log, or None for standard error.

    Its name contains a hash of the job's location, because jobs may have the same name.
    """
    log_setting = environ.get(SPARK_LOG_VARIABLE)
    if log_setting:
        return None if log_setting == "-" else Path(log_setting).absolute()
    state_home = environ.get("XDG_STATE_HOME")
    folder = Path(state_home) if state_home else Path("~").expanduser() / ".local" / "state"
    job_name = re.sub(r"[^\w.-]+", "-", name)[-200:]
    return folder / "stream_app" / f"{job_name}-{zlib.crc32(location.encode()):08x}.log"


def _open(path: Path | None) -> tuple[Path, int] | None:
    if path is None:
        return None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file() and path.stat().st_size > _BYTES_MAX:
            path.replace(path.with_name(path.name + ".1"))
        return path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError as error:
        print(f"stream_app: Spark's log cannot be written: {error}", file=sys.stderr)
        return None
