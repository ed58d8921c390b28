"""Quarantines records whose source has a type that the table's column cannot follow.

It runs if ``narrowed-columns`` is ``quarantine``. A narrower type alone is ambiguous: either the
source has narrowed the column, or the record predates the column's widening. The record's time
decides: only records after the table's schema gave the column its type are quarantined. Schemas
record these times, so a repeated epoch quarantines the same records.

The time of a record is the source's change time, or else Kafka's timestamp. So a record that a
connector sends again keeps its time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.cdc.change_batch import DecodedBatch, with_all_columns
from stream_app.cdc.lower_case_names import lower_case_table
from stream_app.cdc.message_format import SourceExtractor
from stream_app.model.schema.table_schema import TableSchema
from stream_app.model.source.source_table import SourceTable, with_aliases
from stream_app.planning.schema.evolution import evolution, type_times
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.schema.alter import EvolutionRules

_MILLIS = pa.timestamp("ms", tz="UTC")


@dataclass(frozen=True, slots=True, kw_only=True)
class NarrowedColumnStep:
    """A step that quarantines records of a narrowed column. Implements `pipeline.Step`.

    Attributes:
        source_extractor: reads the types and the time of each message.
        schema: the table's schema.
        type_times_ms: column → the time at which it got its type.
        aliases: column of the source → its name in the table, if that differs.
        lowers_names: whether the source's column names become lower case.
    """

    source_extractor: SourceExtractor
    schema: TableSchema
    rules: EvolutionRules
    type_times_ms: Mapping[str, int]
    aliases: Mapping[str, str] = field(default_factory=dict)
    lowers_names: bool = False

    def __call__(self, decoded_batch: DecodedBatch, messages: pa.RecordBatch) -> DecodedBatch:
        """Quarantine the records of narrowed columns that are newer than the column's type."""
        if self.source_extractor.find_versions is None or not decoded_batch.changes.rows.num_rows:
            return decoded_batch
        full_messages = with_all_columns(messages)
        reasons: dict[int, str] = {}
        for message_indices, source_table in self.source_extractor.find_versions(
            full_messages, self.rules.options
        ):
            column_reasons = self._column_reasons(source_table)
            if not column_reasons:
                continue
            row_messages = np.intersect1d(message_indices, decoded_batch.changes.message_indices)
            times_ms = self._times_ms(full_messages.take(pa.array(row_messages)))
            for name, reason in column_reasons.items():
                reasons |= dict.fromkeys(
                    row_messages[times_ms > self.type_times_ms[name]].tolist(), reason
                )
        return decoded_batch.with_bad_records(messages, reasons)

    def _column_reasons(self, source_table: SourceTable) -> dict[str, str]:
        """Return the columns that do not follow their source, with the reasons."""
        source_table = lower_case_table(source_table) if self.lowers_names else source_table
        source_table = with_aliases(source_table, self.aliases) if self.aliases else source_table
        table_evolution = evolution(
            self.schema, source_table, self.rules.options, self.rules.made_columns
        )
        return {
            kept_column.name: f"{kept_column} (narrowed-columns = quarantine)"
            for kept_column in table_evolution.kept_columns
            if kept_column.table_type is not None
        }

    def _times_ms(self, messages: pa.RecordBatch) -> npt.NDArray[np.int64]:
        """Return the time of each change: int64 [n], the minimum for a change without a time."""
        kafka_times = messages.column("timestamp").cast(_MILLIS, safe=False)
        change_times = self.source_extractor.find_change_times
        times_ms = (
            kafka_times
            if change_times is None
            else pc.coalesce(change_times(messages), kafka_times)
        )
        no_time = np.iinfo(np.int64).min
        return np.asarray(
            pc.fill_null(times_ms.cast(pa.int64()), no_time).to_numpy(zero_copy_only=False)
        )


def column_times(table: FileStoreTable) -> Mapping[str, int]:
    """Return the time in ms at which each column got its type, from the older schemas."""
    latest_first = reversed(table.schemas.ids())
    older_ids = (schema_id for schema_id in latest_first if schema_id <= table.schema.schema_id)
    return type_times(table.schemas.schema(schema_id) for schema_id in older_ids)
