"""Describes a data or changelog file as manifests do.

Source: Paimon `io/DataFileMeta.java`. Bytes on disk: `format.avro.manifest_avro`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from stream_app.model.checksum.row_sum import ChangeSum

EMPTY_ROW = bytes(12)
"""A serialized BinaryRow without fields."""
KeyOrder = Callable[[bytes], Any]
"""Turns a serialized key into a value that compares in the table's order of keys."""


class FileSource(enum.IntEnum):
    """The kind of writer that made a file."""

    APPEND = 0
    COMPACT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleStats:
    """Minima and maxima (serialized BinaryRows) and null counts of columns."""

    min_values: bytes = EMPTY_ROW
    max_values: bytes = EMPTY_ROW
    null_counts: tuple[int | None, ...] = ()


EMPTY_STATS = SimpleStats()


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFileMeta:
    """One file of a bucket.

    Attributes:
        min_key, max_key: the serialized BinaryRow of the trimmed primary key of the first and last
            row; never truncated.
        row_count: the number of all rows, including deletes.
        delete_row_count: the number of -U and -D rows; None if an old writer did not record it.
        creation_time_ms: the local wall clock as if UTC, as in Paimon.
        embedded_index, extra_files, external_path: parts of the file's identity.
        unknown_fields: unknown fields of its entry, which a copy would lose.
        change_sum: the checksum of its changes, which only its writer knows; no manifest has it.
    """

    file_name: str
    file_size: int
    row_count: int
    min_key: bytes
    max_key: bytes
    key_stats: SimpleStats
    value_stats: SimpleStats
    min_sequence_number: int
    max_sequence_number: int
    schema_id: int
    level: int
    extra_files: tuple[str, ...] = ()
    creation_time_ms: int | None = None
    delete_row_count: int | None = None
    embedded_index: bytes | None = None
    file_source: FileSource | None = None
    value_stats_cols: tuple[str, ...] | None = None
    external_path: str | None = None
    first_row_id: int | None = None
    write_cols: tuple[str, ...] | None = None
    unknown_fields: tuple[str, ...] = ()
    change_sum: ChangeSum | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        assert self.level >= 0, self
        assert self.row_count > 0, f"an empty file must never be registered: {self}"
        assert self.min_sequence_number <= self.max_sequence_number, self

    def at_level(self, level: int) -> DataFileMeta:
        """Return the same file at another level."""
        return replace(self, level=level)

    @property
    def may_have_deletes(self) -> bool:
        """Whether the file has -U or -D rows, or its old writer did not record it."""
        return self.delete_row_count is None or self.delete_row_count > 0
