"""Declares the table options that allow or forbid changes of a table's schema.

Keys and defaults are Paimon's (1.4, `CoreOptions.java`). `planning.schema` reads them.
"""

from __future__ import annotations

from stream_app.model.options.option import BOOLEAN, Option

ADD_COLUMN_BEFORE_PARTITION = Option(
    "add-column-before-partition",
    BOOLEAN,
    False,
    "A new column without a position stands before the partition columns, not behind the last one.",
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
