"""Describes columns and types that messages have and the table lacks, so that the table can follow.

The step runs where ``unknown-columns`` is ``evolve``, and reports how messages differ from the
table. In each batch it describes the first message of each schema, and the first message with each
unknown column. If a format fingerprints no schemas, it describes the first and the last message.

The step remembers the schema of the latest batch that had only one schema, and no differences from
the table. It does not describe this schema again. In bad records it looks only at the types of the
table's columns, because a value may not fit its column.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from stream_app.cdc.change_batch import MESSAGE_SCHEMA, DecodedBatch, with_all_columns
from stream_app.cdc.column_drift import DriftKind
from stream_app.model.schema.data_type import RowType
from stream_app.model.source.mapping_options import MappingOptions
from stream_app.model.source.source_table import SourceTable, merged_source_table, with_aliases

BAD_DESCRIBED_MAX = 100
"""The maximum number of a batch's bad records that are searched for types of their columns."""


@dataclass(slots=True, kw_only=True)
class DescriptionStep:
    """The step that describes columns and types that the table lacks. Implements `pipeline.Step`.

    Attributes:
        describe: finds the source table's columns and key in messages; None if no message shows a
            column.
        columns: the columns of the table.
        aliases: names of the source by which it means the table's columns.
    """

    describe: Callable[[pa.RecordBatch, MappingOptions], SourceTable | None]
    options: MappingOptions
    columns: RowType
    aliases: Mapping[str, str] = field(default_factory=dict)
    _followed_schemas: frozenset[str] = field(init=False, default=frozenset())
    """The schema of the latest batch with only one schema and no differences from the table."""

    def __call__(self, decoded_batch: DecodedBatch, messages: pa.RecordBatch) -> DecodedBatch:
        """See `Step`."""
        description = self._describe(messages, self._messages_with_new_columns(decoded_batch))
        typed_messages = self._messages_with_types(messages, decoded_batch)
        bad_messages = decoded_batch.bad_records.slice(0, BAD_DESCRIBED_MAX).select(
            MESSAGE_SCHEMA.names
        )
        for known_columns in (
            self._known_types(self._describe(messages, typed_messages)),
            self._known_types(self._describe(bad_messages, range(bad_messages.num_rows))),
        ):
            if description and known_columns:
                description = merged_source_table(description, known_columns)
            else:
                description = description or known_columns
        if description is None or not differs_from_table(description, self.columns):
            if len(decoded_batch.schemas) == 1:
                self._followed_schemas = frozenset(decoded_batch.schemas)
            return decoded_batch
        return replace(decoded_batch, description=description)

    def _messages_with_new_columns(self, decoded_batch: DecodedBatch) -> Collection[int]:
        """Return the indices of messages whose columns the table will get."""
        first_messages = {
            sighting.first_index
            for (kind, _), sighting in decoded_batch.drift.items()
            if kind is DriftKind.UNKNOWN
        }
        new_schemas = decoded_batch.schemas.keys() - self._followed_schemas
        return first_messages.union(decoded_batch.schemas[schema] for schema in new_schemas)

    def _messages_with_types(
        self, messages: pa.RecordBatch, decoded_batch: DecodedBatch
    ) -> Collection[int]:
        """Return the indices of messages that may carry types, if no schema has a fingerprint."""
        may_have_types = messages.num_rows and not decoded_batch.schemas
        return {0, messages.num_rows - 1} if may_have_types else ()

    def _describe(
        self, messages: pa.RecordBatch, message_indices: Collection[int]
    ) -> SourceTable | None:
        if not message_indices:
            return None
        described_messages = with_all_columns(
            messages.take(pa.array(sorted(message_indices), pa.int32()))
        )
        table = self.describe(described_messages, self.options)
        return with_aliases(table, self.aliases) if table is not None and self.aliases else table

    def _known_types(self, table: SourceTable | None) -> SourceTable | None:
        """Return the types of known columns alone, because a bad record must not add columns."""
        if table is None:
            return None
        names = set(self.columns.names)
        columns = tuple(
            column for column in table.columns if column.is_typed and column.name in names
        )
        return replace(table, columns=columns) if columns else None


def differs_from_table(table: SourceTable, columns: RowType) -> bool:
    """Return whether a source's table differs in anything that the table may have to follow."""
    columns_by_name = {column.name: column for column in columns}
    for source in table.columns:
        column = columns_by_name.get(source.name)
        if column is None:
            return True
        described_type = source.type_beside(column.data_type)
        has_other_type = described_type.as_nullable() != column.data_type.as_nullable()
        may_be_null = source.data_type.nullable and not column.data_type.nullable
        if source.is_typed and (has_other_type or may_be_null):
            return True
        if source.comment is not None and source.comment != column.description:
            return True
    return table.is_typed and any(
        not column.data_type.nullable and table.column(column.name) is None for column in columns
    )
