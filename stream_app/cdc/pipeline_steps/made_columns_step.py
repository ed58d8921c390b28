"""Computes the columns of a table that the rows of its messages lack.

The format reads the columns of the source. Both images of an update get the made columns by the
same functions. So an update that changes a computed key or partition is a -U of the old row and a
+U of the new one. Each goes to its own partition. The format proves the row of each change by the
columns from which the key is computed: `MadeColumns.origins_of`.

Source: Paimon `flink/action/cdc/format/AbstractRecordParser.java#evalComputedColumns`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools, bools_of, valid_of
from stream_app.cdc.change_batch import (
    ROW_KIND,
    ChangeBatch,
    DecodedBatch,
    replace_columns,
    schema_of_changes,
    with_all_columns,
)
from stream_app.cdc.computed.column_functions import (
    AppliedFunction,
    ArrowTypeOf,
    applied_function,
)
from stream_app.cdc.computed.made_columns import MadeColumns, referenced_column
from stream_app.cdc.computed.metadata_columns import METADATA
from stream_app.cdc.message_format import FormatSetup, SourceExtractor
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.data_type import STRING, RowType

_BEFORE_KINDS = pa.array([RowKind.UPDATE_BEFORE, RowKind.DELETE], pa.int8())
_MOMENT_TYPE = pa.timestamp("ms")
_SHOWN_LENGTH_MAX = 80


class ComputedColumn(NamedTuple):
    """A computed column: the definition's text, the column that it takes, and the function."""

    name: str
    call: str
    reference: str | None
    function: AppliedFunction


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeColumnsStep:
    """The step that adds metadata columns and computed columns. Implements `pipeline.Step`.

    Attributes:
        schema: the schema of the rows that come out, `schema_of_changes`.
        primary_keys: the primary keys of the table.
        metadata: name of a column → name of its metadata.
        writer_columns: columns that the table's writer fills; their values here mean nothing.
        now_ms: the time of day, milliseconds since 1970 in UTC.
    """

    schema: pa.Schema
    primary_keys: tuple[str, ...]
    computed_columns: tuple[ComputedColumn, ...]
    metadata: dict[str, str]
    writer_columns: tuple[str, ...]
    source_extractor: SourceExtractor
    now_ms: Callable[[], int]

    def __call__(self, decoded_batch: DecodedBatch, messages: pa.RecordBatch) -> DecodedBatch:
        """See `Step`."""
        changes = decoded_batch.changes
        builder = _MadeColumnBuilder(self, changes)
        if self.metadata:
            builder.add_metadata(with_all_columns(messages))
        builder.add_computed(self.now_ms())
        builder.add_blanks()
        columns = [builder.column(name) for name in self.schema.names]
        decoded_batch = decoded_batch.with_rows(replace_columns(changes.rows, columns, self.schema))
        return decoded_batch.with_bad_records(messages, builder.reasons)


class _MadeColumnBuilder:
    """A builder of the made columns of a batch; it notes why messages are bad."""

    def __init__(self, step: MadeColumnsStep, changes: ChangeBatch) -> None:
        self._step = step
        self._changes = changes
        self._is_before = bools_of(pc.is_in(changes.rows.column(ROW_KIND), _BEFORE_KINDS))
        self._columns: dict[str, pa.Array] = {}
        self.reasons: dict[int, str] = {}

    def column(self, name: str) -> pa.Array:
        """Return a column of the source, or a made one [n]."""
        column = self._columns.get(name)
        return self._changes.rows.column(name) if column is None else column

    def add_metadata(self, messages: pa.RecordBatch) -> None:
        """Make the metadata columns; both images of a change get the values of its message."""
        message_indices = pa.array(self._changes.message_indices)
        for name, key in self._step.metadata.items():
            self._add(
                name,
                METADATA[key].read(messages, self._step.source_extractor).take(message_indices),
            )

    def add_computed(self, now_ms: int) -> None:
        """Make the computed columns, in their order."""
        moment = pa.scalar(now_ms, pa.int64()).cast(_MOMENT_TYPE)
        for name, call, reference, function in self._step.computed_columns:
            row_count = self._changes.rows.num_rows
            arguments = (
                pa.repeat(moment, row_count) if reference is None else self.column(reference)
            )
            values, has_failed = function.compute(arguments)
            if has_failed is not None:
                if name not in self._step.primary_keys:
                    # Images of old rows may hold invented values; only their keys are certain.
                    has_failed = has_failed & ~self._is_before
                self._refuse_values(
                    has_failed, f"column {name!r} ({call})", arguments, function.failure_reason
                )
            self._add(name, values)

    def add_blanks(self) -> None:
        """Make the columns that the table's writer fills: null, or the zero of their type."""
        row_count = self._changes.rows.num_rows
        for name in self._step.writer_columns:
            field = self._step.schema.field(name)
            blank = pa.scalar(None, field.type) if field.nullable else _zero(field.type)
            self._columns[name] = pa.repeat(blank, row_count)

    def _add(self, name: str, values: pa.Array) -> None:
        field = self._step.schema.field(name)
        if values.type != field.type:
            values = values.cast(field.type)
        if not field.nullable and values.null_count:
            is_absent = ~valid_of(values)
            if name in self._step.primary_keys:
                self._refuse_nulls(is_absent, f"primary key column {name!r} is null")
            else:
                is_filled = pa.array(is_absent & self._is_before)
                values = pc.if_else(is_filled, _zero(field.type), values)
                is_missing = is_absent & ~self._is_before
                self._refuse_nulls(is_missing, f"NOT NULL column {name!r} is null")
        self._columns[name] = values

    def _refuse_values(
        self, has_failed: Bools, column: str, arguments: pa.Array, reason: str
    ) -> None:
        """Note why messages are bad; a loop over bad records, which are few."""
        for row_index in np.flatnonzero(has_failed).tolist():
            self._refuse(row_index, f"{column}: {_shown_value(arguments[row_index])} {reason}")

    def _refuse_nulls(self, is_absent: Bools, reason: str) -> None:
        for row_index in np.flatnonzero(is_absent).tolist():
            image = " in the before-image" if self._is_before[row_index] else ""
            self._refuse(row_index, f"{reason}{image}")

    def _refuse(self, row_index: int, reason: str) -> None:
        self.reasons.setdefault(int(self._changes.message_indices[row_index]), reason)


def _shown_value(value: pa.Scalar) -> str:
    text = str(value.as_py())
    text = text if len(text) <= _SHOWN_LENGTH_MAX else text[:_SHOWN_LENGTH_MAX] + "…"
    return f'"{text}"' if pa.types.is_string(value.type) else text


def _zero(data_type: pa.DataType) -> pa.Scalar:
    """Return the zero of a type, for an old row's image that lacks a value of a NOT NULL column."""
    if pa.types.is_string(data_type) or pa.types.is_binary(data_type):
        return pa.scalar(b"").cast(data_type)
    if pa.types.is_temporal(data_type):
        return pa.array([0], pa.int32() if data_type.bit_width == 32 else pa.int64()).view(
            data_type
        )[0]
    return pa.scalar(0).cast(data_type)


def source_setup(setup: FormatSetup, made_columns: MadeColumns) -> FormatSetup:
    """Return the setup of the format that reads the columns of the source alone.

    Its key has the columns from which the table's key is made: every image by which a row is
    found must have them.
    """
    names = [name for name in setup.columns.names if name not in made_columns.names]
    traits = replace(
        setup.traits,
        sequence_fields=made_columns.origins_of(setup.traits.sequence_fields),
        # What is computed from a value needs the value.
        restored_columns=setup.traits.restored_columns.difference(
            made_columns.names, made_columns.origins_of(made_columns.names)
        ),
    )
    return replace(
        setup,
        columns=setup.columns.project(names),
        arrow_schema=pa.schema([setup.arrow_schema.field(name) for name in names]),
        primary_keys=made_columns.origins_of(setup.primary_keys),
        traits=traits,
    )


def made_columns_step(
    made_columns: MadeColumns,
    table_setup: FormatSetup,
    source_extractor: SourceExtractor,
    arrow_type_of: ArrowTypeOf,
    now_ms: Callable[[], int],
) -> MadeColumnsStep:
    """Return the step of a table with made columns.

    Args:
        table_setup: the setup of all columns of the table.

    Raises:
        DefinitionError: a function does not accept its column.
    """
    return MadeColumnsStep(
        schema=schema_of_changes(table_setup.arrow_schema),
        primary_keys=table_setup.primary_keys,
        computed_columns=tuple(_computed_columns(made_columns, table_setup.columns, arrow_type_of)),
        metadata=dict(made_columns.metadata),
        writer_columns=tuple(made_columns.writer_columns),
        source_extractor=source_extractor,
        now_ms=now_ms,
    )


def _computed_columns(
    made_columns: MadeColumns, columns: RowType, arrow_type_of: ArrowTypeOf
) -> list[ComputedColumn]:
    computed_columns = []
    for definition in made_columns.definitions:
        reference = referenced_column(definition)
        argument_type = STRING if reference is None else columns.field(reference).data_type
        function = applied_function(definition, argument_type, arrow_type_of)
        computed_columns.append(
            ComputedColumn(definition.name, definition.call, reference, function)
        )
    return computed_columns
