"""Gathers the statistics of one column, batch after batch, in Arrow's columns.

The figures are those that Spark's ANALYZE writes for Paimon. Strings and binaries get lengths, but
no minimum and maximum. Other types get these bounds and their fixed width. An unknown figure is
left out.

Source: Paimon `spark/commands/PaimonAnalyzeTableColumnCommand.scala`,
`stats/ColStats.java#serializeFieldsToString`; Spark's `AnalyzeColumnCommand`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from stream_app.filestore.versions.statistics_files import ColumnStatistics
from stream_app.format.casting.rules import read_as
from stream_app.model.schema.data_type import (
    BINARY_ROOTS,
    STRING_ROOTS,
    DataField,
    TypeRoot,
    parse_data_type,
)
from stream_app.table.analyze.distinct_sketch import DistinctSketch

_SHORT_DECIMAL = 18  # the precision up to which a decimal fits into 8 bytes
_WIDTHS = {
    TypeRoot.BOOLEAN: 1,
    TypeRoot.TINYINT: 1,
    TypeRoot.SMALLINT: 2,
    TypeRoot.INT: 4,
    TypeRoot.BIGINT: 8,
    TypeRoot.FLOAT: 4,
    TypeRoot.DOUBLE: 8,
    TypeRoot.DATE: 4,
    TypeRoot.TIME: 4,
    TypeRoot.TIMESTAMP: 8,
    TypeRoot.TIMESTAMP_LTZ: 8,
}
"""Bytes of a value in Spark, whose planner reads the lengths."""
_STRING = parse_data_type("STRING")
_COUNTED = (TypeRoot.DATE, TypeRoot.TIME)
"""Days and milliseconds: their texts are integers."""


@dataclass(slots=True)
class ColumnFigures:
    """The accumulated figures of one column."""

    column: DataField
    _rows: int = field(init=False, default=0)
    _nulls: int = field(init=False, default=0)
    _has_nan: bool = field(init=False, default=False)
    _least: pa.Scalar | None = field(init=False, default=None)
    _greatest: pa.Scalar | None = field(init=False, default=None)
    _length: int = field(init=False, default=0)
    _longest: int = field(init=False, default=0)
    _distinct: DistinctSketch = field(init=False)

    def __post_init__(self) -> None:
        self._distinct = DistinctSketch(self.column.data_type)

    def add(self, values: pa.Array) -> None:
        """Add the column's values of one batch."""
        self._rows += len(values)
        self._nulls += values.null_count
        present = values.drop_null()
        if not len(present):
            return
        self._distinct.add(present)
        if self.column.data_type.root in STRING_ROOTS | BINARY_ROOTS:
            is_text = self.column.data_type.root in STRING_ROOTS
            lengths = (pc.utf8_length if is_text else pc.binary_length)(present)
            self._length += pc.sum(lengths).as_py()
            self._longest = max(self._longest, pc.max(lengths).as_py())
        else:
            self._add_bounds(present)

    def statistics(self) -> ColumnStatistics:
        """Return the statistics of all values that were added."""
        present = self._rows - self._nulls
        average, longest = self._lengths(present)
        return ColumnStatistics(
            column_id=self.column.field_id,
            distinct_count=min(self._distinct.count(), present),
            null_count=self._nulls,
            minimum=self._text(self._least),
            maximum=self._text(self._greatest),
            average_length=average,
            length_max=longest,
        )

    def _add_bounds(self, present: pa.Array) -> None:
        if pa.types.is_floating(present.type):
            self._has_nan = self._has_nan or pc.any(pc.is_nan(present)).as_py()
        earlier_bounds = [bound for bound in (self._least, self._greatest) if bound is not None]
        bounds = pc.min_max(pa.concat_arrays([present, pa.array(earlier_bounds, present.type)]))
        self._least, self._greatest = bounds["min"], bounds["max"]

    def _lengths(self, present: int) -> tuple[int | None, int | None]:
        """Return the average length, rounded up, and the maximum length; None without values."""
        root = self.column.data_type.root
        if root in STRING_ROOTS | BINARY_ROOTS:
            return (-(-self._length // present), self._longest) if present else (None, None)
        if root is TypeRoot.DECIMAL:
            width = 8 if self.column.data_type.precision <= _SHORT_DECIMAL else 16
            return width, width
        return _WIDTHS[root], _WIDTHS[root]

    def _text(self, value: pa.Scalar | None) -> str | None:
        """Format a bound as Paimon does. Spark sorts NaN last, so a NaN removes both bounds."""
        if value is None or self._has_nan:
            return None
        data_type, array = self.column.data_type, pa.array([value], value.type)
        if data_type.root in _COUNTED:
            return str(array.cast(pa.int32())[0].as_py())
        if data_type.root is TypeRoot.TIMESTAMP_LTZ:  # Paimon writes this type in UTC
            array = array.cast(pa.timestamp(value.type.unit))
            data_type = replace(data_type, root=TypeRoot.TIMESTAMP)
        text: str = read_as(array, data_type, _STRING)[0].as_py()
        return text
