"""Declares the table options about changes of a table's schema: allowed ones, and earlier renames.

Keys and defaults are Paimon's (1.4, `CoreOptions.java`). `planning.schema` reads them.
"""

from __future__ import annotations

from stream_app.model.options.option import BOOLEAN, TEXT, Option

ADD_COLUMN_BEFORE_PARTITION = Option(
    "add-column-before-partition",
    BOOLEAN,
    False,
    "A new column without a position is inserted before the partition columns, not behind the last "
    "one.",
)
DISABLE_ALTER_COLUMN_NULL_TO_NOT_NULL = Option(
    "alter-column-null-to-not-null.disabled",
    BOOLEAN,
    True,
    "A column that may have nulls cannot become NOT NULL.",
)
DISABLE_EXPLICIT_TYPE_CASTING = Option(
    "disable-explicit-type-casting",
    BOOLEAN,
    False,
    "A column's type changes only by an implicit cast, such as INT to BIGINT.",
)
DELETION_VECTORS_MODIFIABLE = Option(
    "deletion-vectors.modifiable",
    BOOLEAN,
    False,
    "`deletion-vectors.enabled` may change in a table with snapshots.",
)
RENAMED_COLUMNS = Option(
    "stream-app.renamed-columns",
    TEXT,
    "",
    "Names that the source's columns had before, as `old=column, ...`. A job that follows a rename "
    "sets it: values under an old name go to the column.",
    is_own=True,
)
