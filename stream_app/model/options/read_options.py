"""The table options of reading, with Paimon's keys and defaults (1.4, `CoreOptions.java`).

Parsed by core_options.
"""

from __future__ import annotations

from stream_app.model.options.option import MB, SIZE, Option

SOURCE_SPLIT_TARGET_SIZE = Option(
    "source.split.target-size",
    SIZE,
    128 * MB,
    "Size up to which a split gathers files of a bucket.",
)
SOURCE_SPLIT_OPEN_FILE_COST = Option(
    "source.split.open-file-cost",
    SIZE,
    4 * MB,
    "Cost of opening a file: added to its size when compactions pack small files, and the least "
    "weight of a file or section in a split.",
    minimum=0,
)
