"""Options that describe the message's key, for all formats of plain rows."""

from __future__ import annotations

from stream_app.cdc.change_batch import TableTraits
from stream_app.cdc.json_records.json_options import COLUMN_NAMES, CheckedOptions
from stream_app.errors import UsageError
from stream_app.model.options.option import Option, choice
from stream_app.model.schema.data_type import RowType

KEY_COLUMNS = "key-columns"
TOMBSTONES = "tombstones"
KEY_FORMAT = "key-format"
_DELETE = "delete"
_REGISTRY, _TEXT = "registry", "text"

KEY_COLUMNS_OPTION = Option(
    KEY_COLUMNS,
    COLUMN_NAMES,
    frozenset(),
    "Columns that are read from the message's key, where the value does not have them; comma "
    "separated.",
)
TOMBSTONES_OPTION = choice(
    TOMBSTONES,
    "Effect of a message without a value: it deletes the row of its key, or is skipped. A table "
    "without a primary key skips it.",
    (_DELETE, "skip"),
)

KEY_FORMAT_OPTION = choice(
    KEY_FORMAT,
    "Form of the messages' keys: that of the values, or a text that is the only column of the key, "
    "as of Kafka's StringSerializer.",
    (_REGISTRY, _TEXT),
)


def has_text_keys(checked_options: CheckedOptions) -> bool:
    """Return whether keys are plain text."""
    return bool(checked_options.values[KEY_FORMAT] == _TEXT)


def deletes_by_tombstones(checked_options: CheckedOptions, traits: TableTraits) -> bool:
    """Return whether a tombstone deletes the row of its key, in a table that has keys."""
    return not traits.ignores_deletes and checked_options.values[TOMBSTONES] == _DELETE


def check_key_columns(
    name: str, section: str, checked_options: CheckedOptions, columns: RowType
) -> None:
    """Check that the table has the columns of the key.

    Args:
        name, section: the name and section of the format.

    Raises:
        UsageError: the table lacks a column of the key.
    """
    unknown_names = checked_options.values[KEY_COLUMNS].difference(columns.names)
    if unknown_names and columns.names:  # without columns a job reads many tables
        raise UsageError(
            f"options of {name} are wrong: {KEY_COLUMNS} names {', '.join(sorted(unknown_names))}, "
            "which the table does not have",
            where=f"source.{section}",
            fix=f"name the table's columns: {', '.join(columns.names)}",
        )
