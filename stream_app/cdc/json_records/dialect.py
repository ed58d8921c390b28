"""The port of a JSON format's own rules for its messages; `dialect_format` builds the format.

A dialect reads messages in two ways, which must agree. `parsed_records` takes the `fields` of many
messages of one shape, and may leave any of them to `read` as a suspect. `read` takes one message,
and its result is final.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa

from stream_app.arrow_buffers import Bools, Int64s
from stream_app.cdc.bad_reasons import UnreadableRecordError
from stream_app.cdc.column_drift import NO_DRIFT, Drift, drift_of
from stream_app.cdc.columns.column_reading import ColumnReading, JsonKind
from stream_app.cdc.json_message import cell_of, load_document
from stream_app.cdc.json_records.message_fields import ParsedFields
from stream_app.cdc.rows.images import Images
from stream_app.cdc.rows.record_images import RecordImages
from stream_app.model.source.mapping_options import MappingOptions
from stream_app.model.source.source_table import SourceTable


@dataclass(frozen=True, slots=True)
class DocumentImages:
    """The images of a message's rows, by field.

    Attributes:
        befores, afters: the images, in the order of the message.
        name_count: the number of field names in the message and its images.
        is_flat: whether the message itself is the image.
        ignored_prefix: prefix of the fields that are not columns; None if all fields are columns.
    """

    befores: tuple[Mapping[str, Any], ...]
    afters: tuple[Mapping[str, Any], ...]
    name_count: int
    is_flat: bool = False
    ignored_prefix: str | None = None

    def drift(self, columns: frozenset[str]) -> Drift:
        """Return the columns by which the images differ from a table of these columns."""
        before: set[str] = set().union(*self.befores)
        if len(self.afters) <= 1:
            after = next(iter(self.afters), None)
        else:
            before = before.union(*self.afters)
            after = dict.fromkeys(set(self.afters[0]).intersection(*self.afters[1:]))
        return drift_of(columns, before, after, ignored_prefix=self.ignored_prefix)


ImagesOf = Callable[[dict[str, Any]], DocumentImages | None]
"""Returns the images of a message, which are JSON objects; None if it is not a change of rows."""


@dataclass(frozen=True, slots=True)
class ParsedMessages:
    """Messages that a parser has accepted.

    Attributes:
        values: binary [n] without nulls.
        keys: binary [n]; None unless there are `Dialect.key_columns`.
        columns: for each of `Dialect.fields` an array [n], in the order of its schema.
        nulls: the rows with explicit nulls, for each object and list, and each of its columns: rows
            of messages, or of a list. None if the parser does not report them.
    """

    values: pa.Array
    keys: pa.Array | None
    columns: list[pa.Array]
    nulls: Mapping[str, Sequence[Int64s]] | None = None


@dataclass(frozen=True, slots=True)
class ParsedRecords:
    """The images of n messages from a columnar parse.

    Attributes:
        images: the images of m records.
        message_indices: int64 [m]; the message of each record, never decreasing; None if each
            message has one record.
        is_suspect: bool [n]; messages to read one by one, which have no records here; None if there
            are none.
    """

    images: Images
    message_indices: Int64s | None = None
    is_suspect: Bools | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """The changes of one message.

    Attributes:
        table: the name of the source's table.
        drift: the columns by which the rows differ from the table.
    """

    records: Sequence[RecordImages]
    table: str = ""
    drift: Drift = NO_DRIFT


@dataclass(frozen=True, slots=True)
class Truncate:
    """A message that says that the source has deleted all rows of the table."""


@dataclass(frozen=True, slots=True)
class NoRow:
    """A valid message without a row."""


@dataclass(frozen=True, slots=True)
class DialectTable:
    """The facts about a table that a dialect needs.

    Attributes:
        columns, keys: names of all columns, and of the primary key.
        reads_tables: whether the name of each record's source table is wanted.
    """

    readings: tuple[ColumnReading, ...]
    columns: frozenset[str]
    keys: frozenset[str]
    reads_tables: bool


class Dialect(Protocol):
    """A reader of one format's messages, which also describes their tables. Can be pickled."""

    @property
    def schema_marker(self) -> bytes:
        """The text before the types of a message's columns; empty if messages have no types."""
        return b""

    @property
    def key_columns(self) -> frozenset[str]:
        """The columns that are read from the messages' keys."""
        return frozenset()

    @property
    def sends_keys_alone(self) -> bool:
        """Whether before-images contain only the key."""
        return False

    def images_of(self, document: dict[str, Any]) -> DocumentImages | None:
        """Return the images of a message; None if it is not a change of rows."""
        ...

    def described_table(
        self, document: dict[str, Any], key: Any, options: MappingOptions, /
    ) -> SourceTable | None:
        """Return the table that a message describes, or None if the message has no row.

        Args:
            key: the message's key as parsed JSON; None without a key, or if it is not JSON.
        """
        ...

    def fields(self, table: DialectTable, json_kinds: Sequence[JsonKind], /) -> ParsedFields | None:
        """Return the fields to parse in columns; None if the messages cannot be parsed in columns.

        Args:
            json_kinds: for each of the table's columns the kind of its values.
        """
        ...

    def parsed_records(
        self, messages: ParsedMessages, table: DialectTable, json_kinds: Sequence[JsonKind], /
    ) -> ParsedRecords:
        """Return the images of messages that are parsed in columns.

        Args:
            json_kinds: for each of the table's columns the kind of its values.
        """
        ...

    def read(
        self, document: dict[str, Any], key: bytes | None, table: DialectTable, /
    ) -> Change | Truncate | NoRow:
        """Read one message.

        Args:
            document: the document, as `json_message.load_document` returns it.

        Raises:
            UnreadableRecordError: the document is not a message of this format.
        """
        ...


def read_message(
    dialect: Dialect, value: bytes, key: bytes | None, table: DialectTable
) -> Change | Truncate | NoRow:
    """Read one message with a value.

    Raises:
        UnreadableRecordError: the bytes are not JSON, or not a message of this format.
    """
    document = load_document(value)
    if document is None:
        return NoRow()
    if not isinstance(document, dict):
        raise UnreadableRecordError(f"is a JSON {cell_of(document)[0].name.lower()}, not an object")
    change = dialect.read(document, key, table)
    if isinstance(change, Change) and (images := dialect.images_of(document)) is not None:
        return replace(change, drift=images.drift(table.columns))
    return change
