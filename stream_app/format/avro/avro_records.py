"""Builds Avro schemas of manifests, and decodes metadata records in any of Paimon's formats.

``manifest.format`` is the format of manifests, manifest lists and index manifests; stream_app
writes only Avro. The first bytes of a file show its format. Paimon's Java readers assume that
branch 0 of a union is null, and identify records by the names of its own converter.

Source: Paimon `format/avro/AvroSchemaConverter.java`, `format/FileFormat.java#manifestFormat`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from stream_app.errors import CorruptFileError, UnsupportedTableError
from stream_app.format.avro.avro_container import read_records

AvroField = dict[str, object]
FieldCodec = tuple[Callable[[Any], Any], Callable[[Any], Any]]
"""The functions that encode and decode a value."""
LIST: FieldCodec = (list, lambda values: tuple(values or ()))
_IDENTITY: FieldCodec = (lambda value: value, lambda value: value)
_PARQUET, _ORC = b"PAR1", b"ORC"


def required(name: str, avro_type: object) -> AvroField:
    """Return a field that is never null."""
    return {"name": name, "type": avro_type}


def optional(name: str, avro_type: object) -> AvroField:
    """Return a field that may be null."""
    return {"name": name, "type": ["null", avro_type], "default": None}


def manifest_schema(fields: list[AvroField]) -> dict[str, object]:
    """Return the Avro schema of a file with these fields."""
    namespace = "org.apache.paimon.avro.generated"
    return {"type": "record", "name": "record", "namespace": namespace, "fields": fields}


def _list_or_none(values: tuple[Any, ...] | None) -> list[Any] | None:
    return None if values is None else list(values)


def _tuple_or_none(values: list[Any] | None) -> tuple[Any, ...] | None:
    return None if values is None else tuple(values)


OPTIONAL_LIST: FieldCodec = (_list_or_none, _tuple_or_none)


class RecordCodec:
    """A codec between objects of a class and records.

    The attribute of a field has its name in lower case, without the leading underscore.

    Attributes:
        field_names: the names of the fields.
    """

    def __init__(
        self,
        fields: Sequence[AvroField],
        *,
        names: Mapping[str, str] | None = None,
        codecs: Mapping[str, FieldCodec] | None = None,
    ) -> None:
        """Prepare the codec.

        Args:
            names: field → attribute, if the names differ.
            codecs: field → the functions that encode and decode its value.
        """
        fields_by_name = {str(field["name"]): field for field in fields}
        self.field_names = frozenset(fields_by_name)
        self._fields = [
            (
                name,
                (names or {}).get(name, name[1:].lower()),
                "default" in field or name in (codecs or {}),
                *(codecs or {}).get(name, _IDENTITY),
            )
            for name, field in fields_by_name.items()
        ]

    def record(self, value: object) -> dict[str, Any]:
        """Return the record of an object."""
        return {field: encode(getattr(value, name)) for field, name, _, encode, _ in self._fields}

    def values(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return the decoded values of a record, by attribute.

        Raises:
            KeyError: a required field is missing.
        """
        return {
            name: decode(record.get(field) if may_lack else record[field])
            for field, name, may_lack, _, decode in self._fields
        }


def read_metadata(data: bytes) -> list[dict[str, Any]]:
    """Decode all records. Times are in milliseconds, or UTC datetimes for Avro's logical type.

    Raises:
        CorruptFileError: the bytes are not a complete file of these formats.
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


def unknown_fields(record: Mapping[str, Any], names: Collection[str]) -> tuple[str, ...]:
    """Return the unknown fields of a record that have a value."""
    if len(record) <= len(names) and all(name in names for name in record):
        return ()
    return tuple(
        name for name, value in record.items() if name not in names and value not in (None, [], {})
    )


def check_known(unknown_names: Collection[str], where: str) -> None:
    """Refuse to rewrite metadata if that would drop fields of a later Paimon version.

    Raises:
        UnsupportedTableError: `unknown_names` is not empty.
    """
    if unknown_names:
        raise UnsupportedTableError(
            f"metadata has unknown fields: {', '.join(unknown_names)}; a commit would lose them",
            where=where,
            fix="write the table with the engine that made it, or with a newer stream_app",
        )


def _with_times_as(unit: str | None, field: pa.Field) -> pa.Field:
    """Return the field with timestamps of a unit; None for plain numbers."""
    if pa.types.is_struct(field.type):
        return field.with_type(pa.struct([_with_times_as(unit, child) for child in field.type]))
    if pa.types.is_timestamp(field.type):
        return field.with_type(pa.int64() if unit is None else pa.timestamp(unit))
    return field
