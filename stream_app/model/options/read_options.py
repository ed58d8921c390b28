"""The table options of reading, with Paimon's keys and defaults (1.4, `CoreOptions.java`).

Parsed by core_options.
"""

from __future__ import annotations

from typing import Any

from stream_app.model.options.option import Option, size_option

SOURCE_SPLIT_TARGET_SIZE = size_option(
    "source.split.target-size",
    "128 mb",
    "Size up to which a split gathers files of a bucket.",
)
SOURCE_SPLIT_OPEN_FILE_COST = size_option(
    "source.split.open-file-cost",
    "4 mb",
    "Cost of opening a file: added to its size when compactions pack small files, and the least "
    "weight of a file or section in a split.",
    minimum=0,
)

READ_OPTIONS: tuple[Option[Any], ...] = (
    SOURCE_SPLIT_TARGET_SIZE,
    SOURCE_SPLIT_OPEN_FILE_COST,
)
