"""Declares the table options that decide how rows of a key are merged, and what a changelog has.

Keys and defaults are Paimon's (1.4, `CoreOptions.java`).
"""

from __future__ import annotations

from typing import Any

from stream_app.model.options.option import (
    BOOLEAN,
    CHOICE,
    DURATION,
    INTEGER,
    TEXT,
    ColumnOption,
    Option,
)
from stream_app.model.traits.changelog_producer import CHANGELOG_PRODUCERS
from stream_app.model.traits.merge_engine import DEDUPLICATE, MERGE_ENGINES

MERGE_ENGINE = Option(
    "merge-engine",
    CHOICE,
    DEDUPLICATE,
    "How rows of one key are merged: deduplicate keeps the newest, partial-update the newest value "
    "of each column that is not null, aggregation computes each column by a function, first-row "
    "keeps the oldest.",
    only=tuple(MERGE_ENGINES),
)
PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE = Option(
    "partial-update.remove-record-on-delete",
    BOOLEAN,
    False,
    "With merge-engine = partial-update: a -D record removes the whole row.",
)
PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP = Option(
    "partial-update.remove-record-on-sequence-group",
    TEXT,
    "",
    "With merge-engine = partial-update: columns (comma separated) of sequence groups. A -D record "
    "that is in the sequence of one of these groups removes the whole row.",
)
AGGREGATION_REMOVE_RECORD_ON_DELETE = Option(
    "aggregation.remove-record-on-delete",
    BOOLEAN,
    False,
    "With merge-engine = aggregation: a -D record removes the whole row.",
)
ROWKIND_FIELD = Option(
    "rowkind.field", TEXT, "", "Column whose text (+I, -U, +U or -D) is the kind of its row."
)
SEQUENCE_FIELD = Option(
    "sequence.field",
    TEXT,
    "",
    "Columns (comma separated) that decide which version of a key is the newest, "
    "before the order of arrival; nulls are the oldest.",
)
SEQUENCE_FIELD_SORT_ORDER = Option(
    "sequence.field.sort-order",
    CHOICE,
    "ascending",
    "Which sequence.field value is the newest: "
    "the largest (ascending) or the smallest (descending).",
    only=("ascending", "descending"),
)
CHANGELOG_PRODUCER = Option(
    "changelog-producer",
    CHOICE,
    "none",
    "What writes changelog files: nothing (none); the writer, which writes every change as it came "
    "in (input); each full compaction, which writes what has changed since the one before "
    "(full-compaction); or each compaction of level 0, which looks up the older rows of its keys "
    "(lookup).",
    only=tuple(CHANGELOG_PRODUCERS),
)
CHANGELOG_ROW_DEDUPLICATE = Option(
    "changelog-producer.row-deduplicate",
    BOOLEAN,
    False,
    "Compactions write no update whose old and new rows have the same values.",
)
CHANGELOG_ROW_DEDUPLICATE_IGNORE_FIELDS = Option(
    "changelog-producer.row-deduplicate-ignore-fields",
    TEXT,
    "",
    "Columns (comma separated) that changelog-producer.row-deduplicate does not compare.",
)
IGNORE_DELETE = Option(
    "ignore-delete",
    BOOLEAN,
    False,
    "Drop -D and -U records before they are written.",
    older_keys=(
        "first-row.ignore-delete",
        "deduplicate.ignore-delete",
        "partial-update.ignore-delete",
    ),
)
IGNORE_UPDATE_BEFORE = Option(
    "ignore-update-before", BOOLEAN, False, "Drop -U records before they are written."
)
PRIMARY_KEY_NULLABLE = Option(
    "primary-key.nullable",
    BOOLEAN,
    False,
    "Columns of the primary key may be null; nulls are equal as keys, and precede other values.",
)
SEQUENCE_SNAPSHOT_ORDERING = Option(
    "sequence.snapshot-ordering",
    BOOLEAN,
    False,
    "Of two rows with the same key, the row of the later snapshot is the newer one, so that "
    "several writers may write the table. It needs write-only = true, and another job that "
    "compacts.",
)
HISTORY = Option(
    "history",
    BOOLEAN,
    False,
    "The table keeps every version of a row, with the time from which and to which it holds "
    "(slowly changing dimension, type 2).",
    is_own=True,
)
HISTORY_SEQUENCE = Option(
    "history.sequence",
    CHOICE,
    "op_ts",
    "What orders the changes of a key, and is the start of their versions: the time of the change "
    "at the source (op_ts), that of its message (timestamp), or the message's offset.",
    only=("op_ts", "timestamp", "offset"),
    is_own=True,
)
HISTORY_VALID_FROM = Option(
    "history.valid-from",
    TEXT,
    "valid_from",
    "Column with the start of a version, the last one of the primary key.",
    is_own=True,
)
HISTORY_VALID_TO = Option(
    "history.valid-to",
    TEXT,
    "valid_to",
    "Column with the end of a version, which is the start of the next one; it is null while the "
    "version still holds.",
    is_own=True,
)
HISTORY_IS_CURRENT = Option(
    "history.is-current",
    TEXT,
    "is_current",
    "BOOLEAN column that says whether a version still holds.",
    is_own=True,
)
HISTORY_LATE_CHANGES = Option(
    "history.late-changes",
    DURATION,
    86_400_000,
    "How late a change may be and still get exactly its place among the changes of its key. For "
    "so long the table keeps the changes that begin or end no version.",
    is_own=True,
)
HISTORY_UNTRACKED_COLUMNS = Option(
    "history.untracked-columns",
    TEXT,
    "",
    "Columns (comma separated) whose change makes no version: the version takes their newest "
    "values.",
    is_own=True,
)

NO_LIMIT = 2_147_483_647
"""The ``count-limit`` of a column without one."""
AGGREGATE_FUNCTION: ColumnOption[str | None] = ColumnOption(
    "aggregate-function", TEXT, None, "Function that combines the column's values."
)
IGNORE_RETRACT = ColumnOption(
    "ignore-retract", BOOLEAN, False, "-U and -D rows do not change the column."
)
LIST_AGG_DELIMITER = ColumnOption(
    "list-agg-delimiter", TEXT, ",", "Delimiter between the texts that listagg joins."
)
DISTINCT = ColumnOption("distinct", BOOLEAN, False, "Each element is kept once.")
NESTED_KEY: ColumnOption[str | None] = ColumnOption(
    "nested-key", TEXT, None, "Key fields (comma separated) of the ROWs in an ARRAY."
)
COUNT_LIMIT = ColumnOption("count-limit", INTEGER, NO_LIMIT, "Maximum number of elements.")
TS_FIELD: ColumnOption[str | None] = ColumnOption(
    "ts-field", TEXT, None, "Field with the time of a MAP's ROWs (default: their last field)."
)

COLUMN_OPTIONS: dict[str, ColumnOption[Any]] = {
    option.suffix: option
    for option in (
        *(AGGREGATE_FUNCTION, IGNORE_RETRACT, LIST_AGG_DELIMITER, DISTINCT),
        *(NESTED_KEY, COUNT_LIMIT, TS_FIELD),
    )
}
"""The options of a column that merge engines read, by the suffix of their key."""
