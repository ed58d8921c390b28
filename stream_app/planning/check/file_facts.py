"""What a manifest says of a data file against what is in it, for `stream-app check`.

Source: Paimon `io/DataFileMeta.java`, `io/KeyValueDataFileWriter.java`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from stream_app.model.data_file_meta import DataFileMeta
from stream_app.model.finding import Finding, FindingKind

_RESTORE = (
    "restore the file and its manifest from a backup, or roll the table back to a snapshot or tag "
    "without it: stream-app rollback-to"
)
_REWRITE = (
    "let a compaction write the bucket's files anew: stream-app compact --full; until then "
    "conditions may leave out rows"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnFacts:
    """What was found in a column.

    Attributes:
        null_count: nulls.
        below, above: rows below the manifest's least and above its largest value.
        told_nulls: what the manifest says; None when it does not.
    """

    null_count: int
    below: int
    above: int
    told_nulls: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """What was found in a data file.

    Attributes:
        keys: least and greatest key, as they compare; None without a key.
        told_keys: what the manifest says.
        unordered_rows: rows whose key does not follow the one before.
        stray_bucket_rows, stray_partition_rows: rows that belong elsewhere.
    """

    row_count: int
    delete_row_count: int | None = None
    keys: tuple[Any, Any] | None = None
    told_keys: tuple[Any, Any] | None = None
    sequence_numbers: tuple[int, int] | None = None
    unordered_rows: int = 0
    stray_bucket_rows: int = 0
    stray_partition_rows: int = 0
    columns: Mapping[str, ColumnFacts] = field(default_factory=dict)


_Fact = tuple[FindingKind, str, str]
"""The kind, what is wrong, and the remedy."""


def fact_findings(file: DataFileMeta, facts: FileFacts, where: str) -> list[Finding]:
    """Everything in which a file is not what its manifest promises."""
    facts_that_differ = (*_row_facts(file, facts), *_key_facts(file, facts), *_column_facts(facts))
    return [
        Finding(kind=kind, what=what, where=where, fix=fix) for kind, what, fix in facts_that_differ
    ]


def _row_facts(file: DataFileMeta, facts: FileFacts) -> Iterator[_Fact]:
    kind, rows, deletes = FindingKind.ROW_COUNT, facts.row_count, facts.delete_row_count
    if rows != (listed := file.row_count):
        yield kind, f"the file has {rows} rows, its manifest says {listed}", _RESTORE
    if deletes is not None and file.delete_row_count not in (None, deletes):
        listed = file.delete_row_count
        yield kind, f"the file has {deletes} deletes, its manifest says {listed}", _RESTORE
    if stray := facts.stray_bucket_rows:
        what = f"{stray} rows belong into another bucket by their key"
        fix = "overwrite the partition with its rows; readers that look up a key miss them"
        yield FindingKind.BUCKET, what, fix
    if stray := facts.stray_partition_rows:
        what = f"{stray} rows belong into another partition"
        fix = "overwrite the partitions with their rows; readers that prune miss them"
        yield FindingKind.PARTITION, what, fix


def _key_facts(file: DataFileMeta, facts: FileFacts) -> Iterator[_Fact]:
    if count := facts.unordered_rows:
        what = f"{count} rows do not follow the row before them in key order"
        yield FindingKind.KEY_ORDER, what, _RESTORE
    if facts.keys is not None and facts.keys != facts.told_keys:
        low, high = map(_key_text, facts.keys)
        what = f"the file's keys reach from {low} to {high}, its manifest says another range"
        yield FindingKind.KEY_RANGE, what, _RESTORE
    listed = file.min_sequence_number, file.max_sequence_number
    if facts.sequence_numbers is not None and facts.sequence_numbers != listed:
        least, most = facts.sequence_numbers
        what = f"sequence numbers reach from {least} to {most}, its manifest says "
        yield FindingKind.SEQUENCE_NUMBERS, f"{what}{listed[0]} to {listed[1]}", _RESTORE


def _column_facts(facts: FileFacts) -> Iterator[_Fact]:
    for name, column in facts.columns.items():
        nulls, listed, low, high = column.null_count, column.told_nulls, column.below, column.above
        if listed not in (None, nulls):
            what = f"column {name!r} has {nulls} nulls, its manifest says {listed}"
            yield FindingKind.STATISTICS, what, _REWRITE
        if low or high:
            what = f"column {name!r} has {low} values below and {high} above the bounds that its "
            yield FindingKind.STATISTICS, f"{what}manifest tells", _REWRITE


def _key_text(key: Any) -> str:
    parts = (one.decode(errors="replace") if isinstance(one, bytes) else str(one) for one in key)
    return f"({', '.join(parts)})"
