"""Options of file indexes that are not of a column; `indexed_columns` has those that are.

Source: Paimon `CoreOptions.java`.
"""

from __future__ import annotations

from stream_app.model.options.option import BOOLEAN, SIZE, Option

FILE_INDEX_IN_MANIFEST_THRESHOLD = Option(
    "file-index.in-manifest-threshold",
    SIZE,
    500,
    "Size beyond which the index of a data file is a file beside it, and not in the manifest.",
)
FILE_INDEX_READ_ENABLED = Option(
    "file-index.read.enabled", BOOLEAN, True, "Readers ask file indexes, to skip files."
)
