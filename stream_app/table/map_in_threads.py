"""Runs many small file operations in a bounded number of threads.

Source: Paimon `utils/FileOperationThreadPool.java`, `utils/ManifestReadThreadPool.java`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from stream_app.model.options.expire_options import FILE_OPERATION_THREAD_NUM
from stream_app.table.file_store_table import FileStoreTable

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def thread_count(table: FileStoreTable) -> int:
    """Return ``file-operation.thread-num``, by default the number of cores."""
    return table.options[FILE_OPERATION_THREAD_NUM] or os.cpu_count() or 1


def map_in_threads(
    threads: int, work: Callable[[_Item], _Result], items: Iterable[_Item]
) -> list[_Result]:
    """Apply `work` to each item, and return the results in the order of the items.

    When it returns or raises, no work is running.
    """
    items = list(items)
    if threads <= 1 or len(items) <= 1:
        return [work(item) for item in items]
    with ThreadPoolExecutor(min(threads, len(items)), thread_name_prefix="files") as pool:
        return list(pool.map(work, items))
