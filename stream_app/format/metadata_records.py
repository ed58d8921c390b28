"""Records of a metadata file in any of Paimon's formats: Avro, ORC or Parquet.

``manifest.format`` says how manifests, manifest lists and index manifests are written. The first
bytes of a file tell its format, so that files from before a change of the option are read too.
stream_app writes Avro alone.

Source: Paimon `format/FileFormat.java#manifestFormat`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from stream_app.errors import CorruptFileError, UnsupportedTableError
from stream_app.format.avro.avro_container import read_records

_PARQUET, _ORC = b"PAR1", b"ORC"


def read_metadata(data: bytes) -> list[dict[str, Any]]:
    """All records of a file; a time is milliseconds, or a datetime in UTC for Avro's logical type.

    Raises:
        CorruptFileError: the bytes are no complete file of these formats.
    """
    if not data.startswith((_PARQUET, _ORC)):
        return read_records(data)
    try:
        source = pa.BufferReader(data)
        is_parquet = data.startswith(_PARQUET)
        table = pq.read_table(source) if is_parquet else orc.ORCFile(source).read()
        for unit in ("ms", None):
            table = table.cast(pa.schema([_with_times_as(unit, field) for field in table.schema]))
        records: list[dict[str, Any]] = table.to_pylist()
    except (OSError, ValueError, pa.ArrowException) as error:
        raise CorruptFileError(
            f"not a readable file of {len(data)} bytes: {error}",
            fix="compare the file's size with the one in its snapshot or manifest list; restore "
            "the table from a backup or roll back to a tag",
        ) from error
    return records


def unknown_fields(record: Mapping[str, Any], known: Collection[str]) -> tuple[str, ...]:
    """The fields of a record that have a value, other than those that the reader knows."""
    if len(record) <= len(known) and all(name in known for name in record):
        return ()
    return tuple(
        name for name, value in record.items() if name not in known and value not in (None, [], {})
    )


def check_known(unknown: Collection[str], where: str) -> None:
    """Refuse to write metadata anew that would lack what a later version of Paimon put there.

    Raises:
        UnsupportedTableError: there is something.
    """
    if unknown:
        raise UnsupportedTableError(
            f"metadata has fields that stream_app does not know: {', '.join(unknown)}; a commit "
            "would lose them",
            where=where,
            fix="write the table with the engine that made it, or with a newer stream_app",
        )


def _with_times_as(unit: str | None, field: pa.Field) -> pa.Field:
    """The field with timestamps of a unit; None: as plain numbers."""
    if pa.types.is_struct(field.type):
        return field.with_type(pa.struct([_with_times_as(unit, one) for one in field.type]))
    if pa.types.is_timestamp(field.type):
        return field.with_type(pa.int64() if unit is None else pa.timestamp(unit))
    return field
