"""The table options of reading, with Paimon's keys and defaults (1.4, `CoreOptions.java`).

Parsed by core_options.
"""

from __future__ import annotations

from stream_app.model.options.option import Option, size_option

READ_OPTIONS: tuple[Option, ...] = (
    size_option(
        "source.split.target-size",
        "128 mb",
        "A split of a read gathers files of a bucket up to this size.",
    ),
    size_option(
        "source.split.open-file-cost",
        "4 mb",
        "What a small file counts more than its size when files are put together; in a split of "
        "a read, what a file or section counts at least.",
        minimum=0,
    ),
)
