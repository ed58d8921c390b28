"""The port of a schema by which each message is a row: its columns, and its values in two ways.

Implemented for each language of schemas; `plain.registered_rows` makes rows of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import pyarrow as pa

from stream_app.cdc.schema_registry_port import Schemas
from stream_app.cdc.source_types.connect_fields import ConnectField
from stream_app.cdc.wire.value_cursor import AvroValues, ValueCursor


class DescribedRows(Protocol):
    """A schema of rows, by which they can be read one by one."""

    @property
    def columns(self) -> Mapping[str, ConnectField]:
        """The columns, in the terms of Kafka Connect."""
        ...

    def json_of(self, message: bytes) -> bytes:
        """The JSON object that Kafka Connect would write of one message.

        Raises:
            UnreadableRecordError: it is no value of the schema.
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


RowSchemaOf = Callable[[Schemas, int, str], RowSchema]
"""Makes the schema of a number. A name makes a column of a schema that is a single value.

It raises `UnreadableRecordError` where messages of the number are no rows.
"""
