"""Defines the columns of a table with row versions (slowly changing dimension, type 2).

Each change of a key makes a version: a row with the source's values, and the period in which they
are valid. `mergetree.write.history_versions` derives these rows.

Source: the columns and rules of Spark's AUTO CDC with ``stored_as_scd_type = 2``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from stream_app.errors import UsageError
from stream_app.model.options.bucket_options import BUCKET_KEY, PARTITION_LOOKUP
from stream_app.model.options.core_options import CoreOptions
from stream_app.model.options.merge_options import (
    HISTORY,
    HISTORY_IS_CURRENT,
    HISTORY_LATE_CHANGES,
    HISTORY_SEQUENCE,
    HISTORY_UNTRACKED_COLUMNS,
    HISTORY_VALID_FROM,
    HISTORY_VALID_TO,
    IGNORE_DELETE,
    IGNORE_UPDATE_BEFORE,
    PRIMARY_KEY_NULLABLE,
    ROWKIND_FIELD,
    SEQUENCE_FIELD,
    SEQUENCE_SNAPSHOT_ORDERING,
)
from stream_app.model.traits.merge_engine import DEDUPLICATE

NAME_OPTIONS = (HISTORY_VALID_FROM, HISTORY_VALID_TO, HISTORY_IS_CURRENT)
"""The options that name the columns of a history."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryColumns:
    """The columns by which a table keeps versions.

    Attributes:
        sequence: the metadata of a message that orders the changes of a key.
        valid_from: the column with the sequence from which a version is valid; it ends the primary
            key.
        valid_to: the column with the sequence at which a version ends; null while it is valid.
        is_current: the column that says whether a version is valid.
        untracked_columns: columns whose change makes no version; the version gets the newest value.
    """

    sequence: str
    valid_from: str
    valid_to: str
    is_current: str
    untracked_columns: frozenset[str]

    @property
    def names(self) -> tuple[str, str, str]:
        """The three columns, in the order in which a new table has them."""
        return self.valid_from, self.valid_to, self.is_current


def history_columns(options: Mapping[str, str]) -> HistoryColumns | None:
    """Return the columns of a table with these options; None if it has no history.

    Raises:
        UsageError: a text is not a value of its option.
    """
    core = CoreOptions(options)
    if not core[HISTORY]:
        return None
    return HistoryColumns(
        sequence=core[HISTORY_SEQUENCE],
        valid_from=core[HISTORY_VALID_FROM],
        valid_to=core[HISTORY_VALID_TO],
        is_current=core[HISTORY_IS_CURRENT],
        untracked_columns=frozenset(core.columns(HISTORY_UNTRACKED_COLUMNS)),
    )


def keys_of_versions(
    primary_keys: tuple[str, ...], partition_keys: Collection[str], options: Mapping[str, str]
) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """Return a new table's primary key and options, derived from the source's key.

    The versions of a key share a bucket, so that one writer sees all of them. Without a history
    both stay unchanged.
    """
    history = history_columns(options)
    if history is None or history.valid_from in primary_keys:
        return primary_keys, options
    keys = (*primary_keys, history.valid_from) if primary_keys else ()
    trimmed_keys = [name for name in primary_keys if name not in partition_keys]
    if not trimmed_keys or CoreOptions(options).bucket < 1:
        return keys, options
    return keys, {BUCKET_KEY.key: ",".join(trimmed_keys), **options}


def history_problems(
    columns: Collection[str],
    primary_keys: Collection[str],
    partition_keys: Collection[str],
    options: Mapping[str, str],
) -> Iterator[str]:
    """Yield the reasons why a table cannot keep an exact history.

    Args:
        primary_keys: the table's keys, which end with the start of a version.
    """
    try:
        history = history_columns(options)
    except UsageError:
        return  # another check reports wrong values
    if history is None:
        yield from (
            f"{option.key} needs history = true: add that, or leave it out"
            for option in (
                *NAME_OPTIONS,
                *(HISTORY_SEQUENCE, HISTORY_UNTRACKED_COLUMNS, HISTORY_LATE_CHANGES),
            )
            if option.key in options
        )
        return
    if not primary_keys:
        yield "history needs primary-keys: without them nothing says which versions are of one row"
        return
    yield from _column_problems(history, columns, primary_keys)
    core = CoreOptions(options)
    yield from _option_problems(core)
    key = [name for name in primary_keys if name not in (history.valid_from, *partition_keys)]
    if not key:
        yield "history needs a column in primary-keys that is not a partition key"
    elif core.bucket >= 1 and history.valid_from in (core.columns(BUCKET_KEY) or primary_keys):
        yield f"history needs bucket-key = {','.join(key)}: all versions of a key share a bucket"
    if history.valid_from in partition_keys:
        yield f"partition-keys names {history.valid_from!r}: versions of a key share a partition"


def _column_problems(
    history: HistoryColumns, columns: Collection[str], primary_keys: Collection[str]
) -> Iterator[str]:
    options = dict(zip(history.names, NAME_OPTIONS, strict=True))
    if len(options) < len(NAME_OPTIONS):
        yield f"{', '.join(option.key for option in NAME_OPTIONS)} must be three columns"
        return
    for name, option in options.items():
        if name not in columns:
            yield f"{option.key} names {name!r}, which is not a column"
    for name in sorted(history.untracked_columns.difference(columns)):
        yield f"{HISTORY_UNTRACKED_COLUMNS.key} names {name!r}, which is not a column"
    for name in sorted(history.untracked_columns.intersection((*primary_keys, *history.names))):
        yield f"{HISTORY_UNTRACKED_COLUMNS.key} names {name!r}, which is not a column of values"
    if primary_keys and list(primary_keys)[-1] != history.valid_from:
        yield f"history needs {history.valid_from!r} as the last column of the primary key"


def _option_problems(core: CoreOptions) -> Iterator[str]:
    if core.merge_engine != DEDUPLICATE:
        yield f"history is not for merge-engine = {core.merge_engine}, whose rows are not versions"
    if core.bucket < 1:
        yield "history needs a fixed number of buckets: give option 'bucket' ≥ 1"
    for option in (SEQUENCE_FIELD, ROWKIND_FIELD):
        if core[option]:
            yield f"history orders changes by {HISTORY_SEQUENCE.key}: leave {option.key} out"
    for switch in (
        *(IGNORE_DELETE, IGNORE_UPDATE_BEFORE, PARTITION_LOOKUP),
        *(PRIMARY_KEY_NULLABLE, SEQUENCE_SNAPSHOT_ORDERING),
    ):
        if core[switch]:
            yield f"history does not go with {switch.key}: leave it out"
