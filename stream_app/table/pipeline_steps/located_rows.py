"""Checks that a change names its row's partition, if the table requires that.

`NamedPartitionStep` is for tables whose changes find their rows by a key index. `LookupHintStep` is
for tables that could have one: it says so in the reason of a record without a partition.

Paimon's Flink jobs expect whole before-images instead.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import pyarrow as pa

from stream_app.arrow_buffers import valid_of
from stream_app.cdc.change_batch import ROW_KIND, DecodedBatch
from stream_app.mergetree.key_value_batch import retract_kind_mask
from stream_app.model.options.bucket_options import PARTITION_LOOKUP
from stream_app.model.schema.paimon_problems import index_problems
from stream_app.model.schema.table_schema import TableSchema
from stream_app.model.traits.merge_engine import OlderRowRule
from stream_app.planning.key_index.index_rule import index_rule

_NO_KEY_VALUE = re.compile(
    r"primary key column '(?P<name>[^']+)' is (?:null|missing) in the before-image"
)
_HINT = f"; with the option {PARTITION_LOOKUP.key} = true the rest of the key finds the row"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedPartitionStep:
    """A step that quarantines rows that are not deleted and lack a part of their partition.

    Implements `pipeline.Step`.

    Attributes:
        required_names: the partition columns that are NOT NULL in the table.
    """

    required_names: tuple[str, ...]

    def __call__(self, decoded_batch: DecodedBatch, messages: pa.RecordBatch) -> DecodedBatch:
        """See `Step`."""
        rows = decoded_batch.changes.rows
        reasons: dict[int, str] = {}
        for name in self.required_names:
            column = rows.column(name)
            if column.null_count:
                is_kept = ~retract_kind_mask(rows.column(ROW_KIND).to_numpy())
                message_indices = decoded_batch.changes.message_indices[is_kept & ~valid_of(column)]
                reasons |= dict.fromkeys(
                    message_indices.tolist(), f"NOT NULL column {name!r} is null"
                )
        return decoded_batch.with_bad_records(messages, reasons)


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupHintStep:
    """A step that adds the option that would help to the reasons of bad records.

    Implements `pipeline.Step`.

    Attributes:
        partition_keys: the partition columns, all of which are in the primary key.
    """

    partition_keys: frozenset[str]

    def __call__(self, decoded_batch: DecodedBatch, _: pa.RecordBatch) -> DecodedBatch:
        """See `Step`."""
        if not decoded_batch.bad_records.num_rows:
            return decoded_batch
        index = decoded_batch.bad_records.schema.get_field_index("reason")
        texts = [
            self._with_hint(text) for text in decoded_batch.bad_records.column(index).to_pylist()
        ]
        bad_records = decoded_batch.bad_records.set_column(
            index, decoded_batch.bad_records.schema.field(index), pa.array(texts, pa.string())
        )
        return replace(decoded_batch, bad_records=bad_records)

    def _with_hint(self, reason: str) -> str:
        match = _NO_KEY_VALUE.match(reason)
        return reason + _HINT if match and match["name"] in self.partition_keys else reason


def finds_rows(schema: TableSchema) -> bool:
    """Return whether a change finds its older row in any partition."""
    rule = index_rule(schema)
    return rule is not None and rule.older_row_rule is OlderRowRule.MOVES


def named_partition_step(schema: TableSchema) -> NamedPartitionStep | None:
    """Return the step of a table; None if messages always name the partition."""
    if not finds_rows(schema):
        return None
    fields = schema.partition_type
    return NamedPartitionStep(
        required_names=tuple(field.name for field in fields if not field.data_type.nullable)
    )


def lookup_hint_step(schema: TableSchema) -> LookupHintStep | None:
    """Return the step of a table; None if the table has the option, or cannot have it."""
    options = {**schema.options, PARTITION_LOOKUP.key: "true"}
    problems = index_problems(schema.primary_keys, schema.partition_keys, options)
    if finds_rows(schema) or [*problems]:
        return None
    return LookupHintStep(partition_keys=frozenset(schema.partition_keys))
