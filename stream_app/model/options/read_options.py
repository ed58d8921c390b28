"""The table options of reading, with Paimon's keys and defaults (1.4, `CoreOptions.java`).

Parsed by core_options.
"""

from __future__ import annotations

from typing import Any

from stream_app.model.options.option import Option, size_option

SOURCE_SPLIT_TARGET_SIZE = size_option(
    "source.split.target-size",
    "128 mb",
    "A split of a read gathers files of a bucket up to this size.",
)
SOURCE_SPLIT_OPEN_FILE_COST = size_option(
    "source.split.open-file-cost",
    "4 mb",
    "What a small file counts more than its size when files are put together; in a split of "
    "a read, what a file or section counts at least.",
    minimum=0,
)

READ_OPTIONS: tuple[Option[Any], ...] = (
    SOURCE_SPLIT_TARGET_SIZE,
    SOURCE_SPLIT_OPEN_FILE_COST,
)
