"""Defines a finding, which is a defect of a table.

`planning.check` and `table.check` make findings, and ``stream-app check`` prints them.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from stream_app.errors import CorruptFileError


class FindingKind(enum.Enum):
    """The part of a table that a finding is about."""

    HINT = "hint"
    SNAPSHOTS = "snapshots"
    SCHEMA = "schema"
    RECORD_COUNT = "record-count"
    MANIFEST = "manifest"
    FILE_MISSING = "file-missing"
    FILE_SIZE = "file-size"
    FILE_UNREADABLE = "file-unreadable"
    ROW_COUNT = "row-count"
    KEY_ORDER = "key-order"
    KEY_RANGE = "key-range"
    SEQUENCE_NUMBERS = "sequence-numbers"
    STATISTICS = "statistics"
    LEVELS = "levels"
    BUCKET = "bucket"
    PARTITION = "partition"
    DELETION_VECTOR = "deletion-vector"
    HASH_INDEX = "hash-index"
    DOUBLE_KEYS = "double-keys"
    CHANGELOG = "changelog"
    CONSUMER = "consumer"
    CHECKSUM = "checksum"
    SOURCE = "source"
    NOT_COMPARED = "not-compared"
    WAITING_ROWS = "waiting-rows"
    ICEBERG = "iceberg"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One defect.

    Attributes:
        problem: one sentence with the wrong values.
        where: the file, bucket or version.
        fix: the remedy.
        needed_by: a text with the versions that need the damaged file; empty if `where` names them,
            or all can be read.
    """

    kind: FindingKind
    problem: str
    where: str
    fix: str
    needed_by: str = ""


def unreadable(error: CorruptFileError, path: str) -> Finding:
    """Return the finding for an unreadable file; `path` is used if the error names no file."""
    where = error.where or path
    return Finding(
        kind=FindingKind.FILE_UNREADABLE, problem=error.problem, where=where, fix=error.fix
    )
