"""The port between envelope and columns: images of many records, before and after the change.

A format makes `Images` from its messages, and takes back their rows. A record is one change of one
row. A message may hold several; the format knows of which message each record is.

1. Choose the rows of each record, and bring each column into the order of the rows.
2. Cast each column to the table's type.
3. Drop the rows of suspects.

A format whose parser gives the images in one column, one below the other, makes `StackedImages`.
When each image is a row, as in a changelog, these are the rows, and nothing is copied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stream_app.arrow_buffers import Bools, Int64s, valid_of
from stream_app.cdc.column_drift import DriftReaction
from stream_app.cdc.columns.column_cast import cast_column
from stream_app.cdc.columns.column_reading import ColumnReading, JsonKind
from stream_app.cdc.columns.time_columns import CastResult, has_cut_digits
from stream_app.cdc.rows.row_assembly import (
    Ops,
    RowPlan,
    changes_key,
    fill_invented,
    forget_invented,
    is_identity,
    omitted_in_rows,
    plan_rows,
    with_unchanged,
)
from stream_app.cdc.source_tables import first_records


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRules:
    """The rules by which the images of a table's records become rows.

    Attributes:
        schema: the schema of the rows, `change_batch.schema_of_changes`.
        keeps_update_before: whether every update gives -U too.
        before_has_key_only: whether before-images hold nothing but the source's key.
        base64_reason: text after "is not base64": the setting by which decimals are base64.
        cut_reaction: the reaction to records with a time that has more digits than its column.
    """

    schema: pa.Schema
    keeps_update_before: bool
    before_has_key_only: bool = False
    base64_reason: str = ""
    cut_reaction: DriftReaction = DriftReaction.WARN


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """n records, in the order of the source. Each column of the table has a column here.

    Attributes:
        ops: uint8 [n]; `row_assembly.CREATE`, `READ`, `UPDATE`, `DELETE`; others give no row.
        has_before, has_after: bool [n]; which images a record has.
        json_kinds: for each column the JSON kind of its values.
        before, after: for each column an array [n] of the `ColumnReading.wire_type` of its kind.
            Null where the record lacks the image, or the image lacks the value.
        is_suspect: bool [n]; records that give no row, because the format reads them one by one.
        table_names: string arrays [n] of the source's database, schema and table; empty if unread.
    """

    ops: Ops
    has_before: Bools
    has_after: Bools
    json_kinds: Sequence[JsonKind]
    before: Sequence[pa.Array]
    after: Sequence[pa.Array]
    is_suspect: Bools
    table_names: Sequence[pa.Array] = ()

    def stack(self) -> StackedImages:
        """Return the same records as a stack: the before-images, followed by the after-images."""
        count = len(self.ops)
        image_indices = np.arange(count)
        columns = self.after
        after_start = 0
        if self.has_before.any():
            after_start = count
            columns = [
                pa.concat_arrays(image_arrays)
                for image_arrays in zip(self.before, self.after, strict=True)
            ]
        return StackedImages(
            ops=self.ops,
            before_indices=np.where(self.has_before, image_indices, -1),
            after_indices=np.where(self.has_after, image_indices + after_start, -1),
            json_kinds=self.json_kinds,
            columns=columns,
            is_suspect=self.is_suspect,
            table_names=self.table_names,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StackedImages:
    """n records and s images; two records with one image each, and one with both::

        before_indices  [-1, 0, 2]
        after_indices   [1, -1, 3]
        columns         of the images d0, c1, u2, u3

    Attributes:
        before_indices, after_indices: int64 [n], the index of each record's image, or -1.
        columns: for each column of the table an array [s]; null where the image lacks the value.
        unchanged_masks: name of a column → bool [n]; where the value after is that of the older
            row, which the record lacks.
        ops: uint8 [n]; the operation of each record.
        json_kinds, is_suspect, table_names: those of the `Images` from which this is made.
    """

    ops: Ops
    before_indices: Int64s
    after_indices: Int64s
    json_kinds: Sequence[JsonKind]
    columns: Sequence[pa.Array]
    is_suspect: Bools
    table_names: Sequence[pa.Array] = ()
    unchanged_masks: Mapping[str, Bools] = field(default_factory=dict)

    @property
    def has_before(self) -> Bools:
        """The mask of records with an image before the change: bool [n]."""
        return self.before_indices >= 0

    @property
    def has_after(self) -> Bools:
        """The mask of records with an image after the change: bool [n]."""
        return self.after_indices >= 0


@dataclass(frozen=True, slots=True)
class ImageRows:
    """The rows of n records.

    Attributes:
        rows: m rows of `RowRules.schema`, perhaps with the column of `with_unchanged`.
        record_indices: int64 [m]; for each row the index of its record, never decreasing.
        is_suspect: bool [n]; those of the images, and records with a value that does not fit.
        tables: name of a source table → its first record that is not a suspect.
        cut_records: name of a column → bool [n]; good records of which it cuts digits.
    """

    rows: pa.RecordBatch
    record_indices: npt.NDArray[np.int64]
    is_suspect: Bools
    tables: Mapping[str, int]
    cut_records: Mapping[str, Bools]


def rows_of_images(
    images: Images | StackedImages, readings: Sequence[ColumnReading], rules: RowRules
) -> ImageRows:
    """Return the rows that records give, cast to the table's types, without those of suspects.

    Args:
        readings: the readings of the table's columns, in table order.
    """
    if isinstance(images, Images):
        images = images.stack()
    has_before, has_after = images.has_before, images.has_after
    wants_update_before: Bools | bool = rules.keeps_update_before
    if not wants_update_before and bool((has_before & has_after).any()):
        wants_update_before = changes_key(
            readings, images.columns, images.before_indices, images.after_indices
        )
    plan = plan_rows(images.ops, has_before, has_after, wants_update_before)  # step 1
    image_indices = plan.image_indices(images.before_indices, images.after_indices)
    is_in_place = is_identity(image_indices, len(images.columns[0]))
    order = pa.array(image_indices)
    is_suspect = images.is_suspect.copy()
    columns = [pa.array(plan.row_kinds)]
    cut_records: dict[str, Bools] = {}
    finds_cuts = rules.cut_reaction is not DriftReaction.IGNORE
    for reading, json_kind, column in zip(readings, images.json_kinds, images.columns, strict=True):
        wire_values = column if is_in_place else column.take(order)
        is_unchanged = images.unchanged_masks.get(reading.name)
        values, has_failed = _cast(
            reading, json_kind, wire_values, plan, is_unchanged, rules
        )  # step 2
        columns.append(values)
        if has_failed is not None:
            is_suspect[plan.record_indices[has_failed]] = True
        loses_digits = has_cut_digits(reading, json_kind, wire_values) if finds_cuts else None
        if loses_digits is not None:
            cut_records[reading.name] = np.zeros(len(is_suspect), np.bool_)
            cut_records[reading.name][plan.record_indices[loses_digits]] = True
    rows = pa.RecordBatch.from_arrays(columns, schema=rules.schema)
    rows = with_unchanged(rows, omitted_in_rows(images.unchanged_masks, plan))
    record_indices = plan.record_indices
    if rules.cut_reaction is DriftReaction.QUARANTINE:
        is_suspect = np.logical_or.reduce([is_suspect, *cut_records.values()])
    if is_suspect.any():  # step 3
        is_good = ~is_suspect[record_indices]
        rows, record_indices = rows.filter(pa.array(is_good)), record_indices[is_good]
    cut_records = {name: loses_digits & ~is_suspect for name, loses_digits in cut_records.items()}
    return ImageRows(
        rows,
        record_indices,
        is_suspect,
        first_records(images.table_names, ~is_suspect),
        cut_records,
    )


def _cast(
    reading: ColumnReading,
    json_kind: JsonKind,
    wire_values: pa.Array,
    plan: RowPlan,
    is_unchanged: Bools | None,
    rules: RowRules,
) -> CastResult:
    """Return one column, and the mask of values that do not fit: bool [m]; None if all fit.

    Args:
        is_unchanged: bool [n], the records that omit the column's value; None if no record does.
    """
    if rules.before_has_key_only:
        wire_values = forget_invented(reading, wire_values, plan)
    column, has_failed = cast_column(reading, json_kind, wire_values)
    if rules.before_has_key_only:
        column = fill_invented(reading, column, plan)
    if reading.is_required and column.null_count:
        is_absent = ~valid_of(column)
        if is_unchanged is not None:
            is_absent &= ~(is_unchanged[plan.record_indices] & plan.is_after)
        has_failed = is_absent if has_failed is None else has_failed | is_absent
    return column, has_failed
