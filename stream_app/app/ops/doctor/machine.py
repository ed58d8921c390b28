"""Checks the machine: Java, Python's packages, memory and disk."""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path

from stream_app.app.launch.java import JAVA_VERSION_MIN, find_java, is_new_enough, java_version
from stream_app.app.ops.doctor.observation import (
    Observation,
    good_observation,
    problem_observation,
    warning_observation,
)
from stream_app.app.text.listing import size_text
from stream_app.errors import UsageError
from stream_app.fileio.local.local_file_io import local_path
from stream_app.fileio.store_registry import is_local
from stream_app.model.options.option import parse_memory_size
from stream_app.spark.driver.supported_versions import check_spark

DRIVER_MEMORY = "spark.driver.memory"
_SPARK_DEFAULT = "1g"
_MEMORY_SHARE = 0.75
"""The share of the machine's memory that the heap and the write buffers may fill."""
_OVERHEAD_MIN = 384 << 20
_OVERHEAD_SHARE = 0.1
"""Spark's default of ``spark.executor.memoryOverhead``, a share of the heap."""
_LOCAL_THREADS = re.compile(r"local(?:\[(\*|\d+)[^]]*\])?$")
FREE_DISK_MIN = 5 << 30
_PACKAGES = ("stream_app", "pyspark", "pyarrow")


def java_observations() -> Iterator[Observation]:
    """Yield whether the Java that Spark will use is new enough."""
    program = find_java()
    installed_version = java_version(program)
    fix = f"install Java {JAVA_VERSION_MIN} or newer, or set JAVA_HOME"
    if installed_version is None:
        yield problem_observation("java", f"{program} does not print its version", fix)
    elif not is_new_enough(installed_version):
        yield problem_observation("java", f"{program} is Java {installed_version}", fix)
    else:
        yield good_observation("java", f"{installed_version} ({program})")


def package_observations() -> Iterator[Observation]:
    """Yield the packages' versions, and a problem if tests do not cover this Spark."""
    versions_text = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    yield good_observation("python", f"{platform.python_version()}, {versions_text}")
    try:
        check_spark(version("pyspark"))
    except UsageError as error:
        yield problem_observation("spark", error.problem, error.fix)


def memory_observations(
    spark_settings: Mapping[str, str], memory_size: int, buffer_size: int, core_count: int
) -> Iterator[Observation]:
    """Yield whether Spark's JVM leaves enough memory for the Python workers' write buffers.

    Args:
        spark_settings: the configuration's section ``[spark]``.
        memory_size: the machine's memory in bytes.
        buffer_size: the size of a write buffer; each writing task has one.
        core_count: the number of cores of the machine.
    """
    heap_size = _size(spark_settings, DRIVER_MEMORY, _SPARK_DEFAULT)
    if isinstance(heap_size, Observation):
        yield heap_size
        return
    local_master = _LOCAL_THREADS.match(spark_settings.get("spark.master", "local[*]"))
    task_count = 0
    if local_master is not None:
        task_count = core_count if local_master[1] == "*" else int(local_master[1] or 1)
    requirement_text = f"{size_text(heap_size)} for Spark's JVM"
    if task_count:
        requirement_text += f" and {task_count} write buffers of {size_text(buffer_size)}"
    requirement_text += f", of {size_text(memory_size)}"
    if heap_size + task_count * buffer_size > memory_size * _MEMORY_SHARE:
        rest = "Python's workers and compactions need the rest"
        fix = f"lower {DRIVER_MEMORY}, the cores of spark.master or write-buffer-size: {rest}"
        yield warning_observation("memory", requirement_text, fix)
    else:
        yield good_observation("memory", requirement_text)
    if not task_count:
        yield from _executor_memory_observations(spark_settings, buffer_size)


def _executor_memory_observations(
    spark_settings: Mapping[str, str], buffer_size: int
) -> Iterator[Observation]:
    """Yield whether an executor on a cluster leaves enough memory for its Python workers.

    Source: Spark's documentation of ``spark.executor.memoryOverhead``.
    """
    sizes = [_size(spark_settings, "spark.executor.memory", _SPARK_DEFAULT)]
    for key in ("spark.executor.pyspark.memory", "spark.executor.memoryOverhead"):
        if key in spark_settings:
            sizes.append(_size(spark_settings, key, ""))
    for size in sizes:
        if isinstance(size, Observation):
            yield size
            return
    heap_size, *overhead_sizes = [size for size in sizes if isinstance(size, int)]
    overhead_size = max(
        overhead_sizes, default=max(_OVERHEAD_MIN, int(heap_size * _OVERHEAD_SHARE))
    )
    cores_text = spark_settings.get("spark.executor.cores", "1")
    if not (cores_text.isascii() and cores_text.isdecimal()):
        problem = f"spark.executor.cores is {cores_text!r}, not a whole number"
        yield problem_observation("memory", problem, "give the number of tasks of an executor")
        return
    task_count = int(cores_text)
    requirement_text = (
        f"an executor leaves Python {size_text(overhead_size)}, and its {task_count} tasks have "
        f"write buffers of {size_text(buffer_size)} each"
    )
    if task_count * buffer_size > overhead_size:
        fix = "raise spark.executor.memoryOverhead, or lower write-buffer-size"
        yield warning_observation("memory", requirement_text, fix)
    else:
        yield good_observation("memory", requirement_text)


def _size(spark_settings: Mapping[str, str], key: str, default: str) -> int | Observation:
    """Return a Spark setting in bytes, or a problem. Spark reads a number without a unit as MiB."""
    text = spark_settings.get(key, default)
    try:
        return parse_memory_size(text if text[-1:].isalpha() else f"{text}m")
    except ValueError as error:
        return problem_observation("memory", f"{key} {error}", "give a size such as '4g'")


def machine_memory() -> int:
    """Return the memory of the machine, or of its container, in bytes."""
    total_size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        memory_max_text = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return total_size
    return min(total_size, int(memory_max_text)) if memory_max_text.isdecimal() else total_size


def disk_observations(location: str, free_min: int = FREE_DISK_MIN) -> Iterator[Observation]:
    """Yield the free space of a local folder's disk; nothing for other stores.

    Args:
        free_min: the number of bytes that should be free.
    """
    if not is_local(location):
        return
    existing_folder = Path(local_path(location)).absolute()
    while not existing_folder.exists():
        existing_folder = existing_folder.parent
    free_bytes = shutil.disk_usage(existing_folder).free
    free_text = f"{size_text(free_bytes)} are free at {existing_folder}"
    if free_bytes < free_min:
        yield warning_observation(
            "disk", free_text, "a compaction needs the size of a whole bucket beside it"
        )
    else:
        yield good_observation("disk", free_text)
