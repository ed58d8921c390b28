"""The port of a schema by which each message is a row: its columns, and its values in two ways.

Each language of schemas implements it, and `plain.registered_row_decoder` makes the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol, TypeVar

import pyarrow as pa

from stream_app.arrow_buffers import Int64s
from stream_app.cdc.schema_registry_port import Schemas
from stream_app.cdc.source_types.connect_fields import ConnectField
from stream_app.cdc.wire.avro.avro_cursor import AvroValues, ValueCursor
from stream_app.cdc.wire.wire_format import groups_by_value, schema_numbers_of

SchemaKey = tuple[int, ...]
"""The number of a schema, and in Protobuf the indices of the message's type."""


class DescribedRows(Protocol):
    """A schema of rows, by which they can be read one by one."""

    @property
    def columns(self) -> Mapping[str, ConnectField]:
        """The columns, in the terms of Kafka Connect."""
        ...

    def json_of(self, message: bytes) -> bytes:
        """Return the JSON object that Kafka Connect would write of one message.

        Raises:
            UnreadableRecordError: the message is not a value of the schema.
        """
        ...


class RowSchema(DescribedRows, Protocol):
    """A schema of rows in bytes. Both ways of reading must agree; `json_of` is final."""

    def values(self, messages: pa.Array) -> tuple[ValueCursor, Mapping[str, AvroValues]]:
        """Read messages in the wire format, all of this schema, in columns.

        Args:
            messages: binary [n] without nulls.
        """
        ...


Described_co = TypeVar("Described_co", bound=DescribedRows, covariant=True)


class SchemaLanguage(Protocol[Described_co]):
    """A language of schemas. Can be pickled."""

    def split(self, messages: pa.Array) -> Iterator[tuple[SchemaKey, Int64s]]:
        """Yield each schema's key, and the indices of its messages: int64 [m].

        Args:
            messages: binary [n] without nulls.
        """
        ...

    def schema(self, schemas: Schemas, key: SchemaKey, name: str) -> Described_co:
        """Return a schema of rows.

        Args:
            name: the column of a schema that is a single value; if empty, such a schema is refused.

        Raises:
            UnreadableRecordError: messages of the schema are not rows.
            SourceError: no registry answers.
        """
        ...


def split_by_schema(messages: pa.Array) -> Iterator[tuple[SchemaKey, Int64s]]:
    """Split messages as `SchemaLanguage.split` does, by the number of the schema alone."""
    for schema_number, rows in groups_by_value(schema_numbers_of(messages)):
        yield (schema_number,), rows
