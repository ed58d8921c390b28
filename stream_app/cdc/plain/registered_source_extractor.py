"""Extracts the source's facts from rows whose schema is in a registry: table, columns, key.

It implements what `message_format.SourceExtractor` and `message_format.SourceSurvey` declare. A row
does not name its table, so the topic counts as the table.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Int64s
from stream_app.cdc.bad_reasons import UnreadableRecordError
from stream_app.cdc.change_batch import present_values
from stream_app.cdc.json_records.dialect_description import with_key
from stream_app.cdc.message_format import SeenTableVersion
from stream_app.cdc.schema_registry_port import Schemas
from stream_app.cdc.source_tables import Origins, origins_of
from stream_app.cdc.source_types.connect_fields import source_column
from stream_app.cdc.wire.row_schema import DescribedRows, SchemaLanguage
from stream_app.model.source.mapping_options import MappingOptions
from stream_app.model.source.source_table import SourceTable, merged_source_table


@dataclass(frozen=True, slots=True)
class RegisteredSourceExtractor:
    """The functions of a `SourceExtractor` for rows whose schema is in a registry.

    Attributes:
        language, key_language: the schema languages of values and of keys.
        key_columns: columns that come from the key.
    """

    language: SchemaLanguage[DescribedRows]
    key_language: SchemaLanguage[DescribedRows]
    schemas: Schemas
    key_columns: frozenset[str] = frozenset()

    def describe(self, messages: pa.RecordBatch, options: MappingOptions) -> SourceTable | None:
        """See `message_format.SourceExtractor`.

        Raises:
            SourceError: the schema registry does not answer.
        """
        tables = [
            with_key(table, self._keys(messages.take(pa.array(indices))))
            for indices, table in self._tables(messages, options)
        ]
        return functools.reduce(merged_source_table, tables) if tables else None

    def find_versions(
        self, messages: pa.RecordBatch, options: MappingOptions
    ) -> Sequence[SeenTableVersion]:
        """See `message_format.SourceExtractor`.

        Raises:
            SourceError: the schema registry does not answer.
        """
        return [
            SeenTableVersion(indices, table) for indices, table in self._tables(messages, options)
        ]

    def as_json(self, messages: pa.RecordBatch) -> pa.RecordBatch:
        """Return a few messages as JSON; null where they cannot be read."""
        for name in ("key", "value"):
            texts = [
                self._json(body, is_key=name == "key") for body in messages.column(name).to_pylist()
            ]
            column_index = messages.schema.get_field_index(name)
            column = pa.array(texts, pa.binary())
            messages = messages.set_column(column_index, pa.field(name, pa.binary()), column)
        return messages

    def _json(self, message: bytes | None, *, is_key: bool) -> bytes | None:
        try:
            if message is None:
                return None
            language = self.key_language if is_key else self.language
            return self._schema(message, language).json_of(message)
        except UnreadableRecordError:
            return None

    def _schema(self, message: bytes, language: SchemaLanguage[DescribedRows]) -> DescribedRows:
        [(schema_key, _)] = language.split(pa.array([message], pa.binary()))
        return language.schema(self.schemas, schema_key, self._single_key())

    def _single_key(self) -> str:
        return min(self.key_columns) if len(self.key_columns) == 1 else ""

    def _tables(
        self, messages: pa.RecordBatch, options: MappingOptions
    ) -> Iterator[tuple[Int64s, SourceTable]]:
        """Yield the messages of each schema, int64 [m], and their table."""
        values, message_indices = present_values(messages)
        for schema_key, indices in self.language.split(values):  # a loop over schemas
            try:
                fields = dict(self.language.schema(self.schemas, schema_key, "").columns)
            except UnreadableRecordError:
                continue
            schema_messages = message_indices[indices].astype(np.int64)
            if self.key_columns.difference(fields):
                key = self._key_of(messages.column("key")[int(schema_messages[0])].as_py())
                key_fields = {} if key is None else key.columns
                fields |= {
                    name: key_fields[name] for name in key_fields if name in self.key_columns
                }
            columns = [source_column(name, field, options) for name, field in fields.items()]
            if columns:
                yield schema_messages, SourceTable(columns=tuple(columns))

    def _keys(self, messages: pa.RecordBatch) -> Iterator[tuple[str, ...]]:
        """Yield the columns of the messages' keys."""
        keys = messages.column("key").cast(pa.binary()).drop_null()
        for _, indices in self.key_language.split(keys):
            key = self._key_of(keys[int(indices[0])].as_py())
            if key is not None:
                yield tuple(key.columns)

    def _key_of(self, key: bytes | None) -> DescribedRows | None:
        try:
            return None if key is None else self._schema(key, self.key_language)
        except UnreadableRecordError:
            return None


def origins_of_topics(messages: pa.RecordBatch) -> Origins:
    """Return the topic of each message that writes or deletes a row."""
    no_names = pa.nulls(messages.num_rows, pa.string())
    has_row = messages.column("value").is_valid()
    if "key" in messages.schema.names:
        has_row = pc.or_(has_row, messages.column("key").is_valid())
    topic = pc.if_else(has_row, messages.column("topic").cast(pa.string()), None)
    return origins_of(no_names, no_names, topic, {})
