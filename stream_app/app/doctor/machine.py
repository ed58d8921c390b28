"""The machine: Java, Python's packages, memory and disk."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path

from stream_app.app.doctor.observation import Observation, fine, problem, warning
from stream_app.app.launch.java import JAVA_VERSION_MIN, find_java
from stream_app.app.output.listing import size_text
from stream_app.fileio.file_io_registry import is_local
from stream_app.fileio.local_file_io import local_path
from stream_app.model.options.option import parse_memory_size

DRIVER_MEMORY = "spark.driver.memory"
_SPARK_DEFAULT = "1g"
_MEMORY_SHARE = 0.75
DISK_LEAST = 5 << 30
_PACKAGES = ("stream_app", "pyspark", "pyarrow")
_JAVA_VERSION = re.compile(r'version "(\d+)([^"]*)"')


def java() -> Iterator[Observation]:
    """The Java that Spark gets."""
    program = find_java()
    said = subprocess.run(
        [program, "-version"], capture_output=True, text=True, timeout=30, check=False
    )
    found = _JAVA_VERSION.search(said.stderr)
    install = f"install Java {JAVA_VERSION_MIN} or newer, or set JAVA_HOME"
    if found is None:
        yield problem("java", f"{program} does not tell its version", install)
    elif int(found[1]) < JAVA_VERSION_MIN:
        yield problem("java", f"{program} is Java {found[1]}", install)
    else:
        yield fine("java", f"{found[1]}{found[2]} ({program})")


def packages() -> Iterator[Observation]:
    """Versions, for a report."""
    told = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    yield fine("python", f"{platform.python_version()}, {told}")


def memory(spark: Mapping[str, str], total: int) -> Iterator[Observation]:
    """Whether Spark's JVM leaves room for the Python workers.

    Args:
        spark: the section ``[spark]``.
        total: bytes of the machine.
    """
    text = spark.get(DRIVER_MEMORY, _SPARK_DEFAULT)
    try:
        wanted = parse_memory_size(text if text[-1:].isalpha() else f"{text}m")
    except ValueError as error:
        yield problem("memory", f"spark.{DRIVER_MEMORY} {error}", "give it such as '4g'")
        return
    told = f"{size_text(wanted)} for Spark's JVM, of {size_text(total)}"
    if wanted > total * _MEMORY_SHARE:
        rest = "Python's workers, the write buffers and compactions need the rest"
        yield warning("memory", told, f"lower spark.{DRIVER_MEMORY}: {rest}")
    else:
        yield fine("memory", told)


def machine_memory() -> int:
    """Bytes of the machine, or of its container."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return total
    return min(total, int(limit)) if limit.isdecimal() else total


def disk(location: str, least: int = DISK_LEAST) -> Iterator[Observation]:
    """Room where a local folder lies or will lie; nothing of other stores.

    Args:
        least: bytes that should be free.
    """
    if not is_local(location):
        return
    there = Path(local_path(location)).absolute()
    while not there.exists():
        there = there.parent
    free = shutil.disk_usage(there).free
    told = f"{size_text(free)} are free at {there}"
    if free < least:
        yield warning("disk", told, "a compaction needs the size of a whole bucket beside it")
    else:
        yield fine("disk", told)
