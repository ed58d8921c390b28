"""What a manifest says of a data file against what is in it, for `stream-app check`.

Source: Paimon `io/DataFileMeta.java`, `io/KeyValueDataFileWriter.java`.
"""

from __future__ import annotations

from collections.abc import Mapping
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


def fact_findings(file: DataFileMeta, facts: FileFacts, where: str) -> list[Finding]:
    """Everything in which a file is not what its manifest promises."""
    findings: list[tuple[FindingKind, str, str]] = []
    if facts.row_count != file.row_count:
        findings.append(
            (
                FindingKind.ROW_COUNT,
                f"the file has {facts.row_count} rows, its manifest says {file.row_count}",
                _RESTORE,
            )
        )
    if None not in (listed := file.delete_row_count, facts.delete_row_count) and (
        listed != facts.delete_row_count
    ):
        findings.append(
            (
                FindingKind.ROW_COUNT,
                f"the file has {facts.delete_row_count} deletes, its manifest says {listed}",
                _RESTORE,
            )
        )
    findings += _key_findings(file, facts)
    findings += _stray_findings(facts)
    for name, column in facts.columns.items():
        findings += _column_findings(name, column)
    return [Finding(kind=kind, what=what, where=where, fix=fix) for kind, what, fix in findings]


def _key_findings(file: DataFileMeta, facts: FileFacts) -> list[tuple[FindingKind, str, str]]:
    findings = []
    if facts.unordered_rows:
        findings.append(
            (
                FindingKind.KEY_ORDER,
                f"{facts.unordered_rows} rows do not follow the row before them in key order",
                _RESTORE,
            )
        )
    if facts.keys is not None and facts.keys != facts.told_keys:
        findings.append(
            (
                FindingKind.KEY_RANGE,
                f"the file's keys reach from {_key_text(facts.keys[0])} to "
                f"{_key_text(facts.keys[1])}, its manifest says another range",
                _RESTORE,
            )
        )
    listed = (file.min_sequence_number, file.max_sequence_number)
    if facts.sequence_numbers is not None and facts.sequence_numbers != listed:
        findings.append(
            (
                FindingKind.SEQUENCE_NUMBERS,
                f"sequence numbers reach from {facts.sequence_numbers[0]} to "
                f"{facts.sequence_numbers[1]}, its manifest says {listed[0]} to {listed[1]}",
                _RESTORE,
            )
        )
    return findings


def _stray_findings(facts: FileFacts) -> list[tuple[FindingKind, str, str]]:
    findings = []
    if facts.stray_bucket_rows:
        findings.append(
            (
                FindingKind.BUCKET,
                f"{facts.stray_bucket_rows} rows belong into another bucket by their key",
                "overwrite the partition with its rows; readers that look up a key miss them",
            )
        )
    if facts.stray_partition_rows:
        findings.append(
            (
                FindingKind.PARTITION,
                f"{facts.stray_partition_rows} rows belong into another partition",
                "overwrite the partitions with their rows; readers that prune miss them",
            )
        )
    return findings


def _column_findings(name: str, column: ColumnFacts) -> list[tuple[FindingKind, str, str]]:
    findings = []
    if column.told_nulls is not None and column.told_nulls != column.null_count:
        findings.append(
            (
                FindingKind.STATISTICS,
                f"column {name!r} has {column.null_count} nulls, its manifest says "
                f"{column.told_nulls}",
                _REWRITE,
            )
        )
    if column.below or column.above:
        findings.append(
            (
                FindingKind.STATISTICS,
                f"column {name!r} has {column.below} values below and {column.above} above the "
                "bounds that its manifest tells",
                _REWRITE,
            )
        )
    return findings


def _key_text(key: Any) -> str:
    return (
        "("
        + ", ".join(
            part.decode(errors="replace") if isinstance(part, bytes) else str(part) for part in key
        )
        + ")"
    )
