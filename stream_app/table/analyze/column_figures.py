"""Gathers the statistics of one column, batch after batch, in Arrow's columns.

The figures are those that Spark's ANALYZE writes for Paimon. Strings and binaries get lengths, but
no minimum and maximum. Other types get these bounds and their fixed width. The statistics omit
unknown figures.

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

_SHORT_DECIMAL = 18
"""The precision up to which a decimal fits into 8 bytes."""
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
_INTEGER_TEXTS = (TypeRoot.DATE, TypeRoot.TIME)
"""Types whose texts are integers: days and milliseconds."""


@dataclass(slots=True)
class ColumnFigures:
    """The accumulated figures of one column."""

    column: DataField
    _row_count: int = field(init=False, default=0)
    _null_count: int = field(init=False, default=0)
    _has_nan: bool = field(init=False, default=False)
    _minimum: pa.Scalar | None = field(init=False, default=None)
    _maximum: pa.Scalar | None = field(init=False, default=None)
    _total_length: int = field(init=False, default=0)
    _length_max: int = field(init=False, default=0)
    _sketch: DistinctSketch = field(init=False)

    def __post_init__(self) -> None:
        self._sketch = DistinctSketch(self.column.data_type)

    def add(self, values: pa.Array) -> None:
        """Add the column's values of one batch."""
        self._row_count += len(values)
        self._null_count += values.null_count
        valid_values = values.drop_null()
        if not len(valid_values):
            return
        self._sketch.add(valid_values)
        if self.column.data_type.root in STRING_ROOTS | BINARY_ROOTS:
            is_text = self.column.data_type.root in STRING_ROOTS
            lengths = (pc.utf8_length if is_text else pc.binary_length)(valid_values)
            self._total_length += pc.sum(lengths).as_py()
            self._length_max = max(self._length_max, pc.max(lengths).as_py())
        else:
            self._add_bounds(valid_values)

    def statistics(self) -> ColumnStatistics:
        """Return the statistics of all values that were added."""
        value_count = self._row_count - self._null_count
        average_length, length_max = self._lengths(value_count)
        return ColumnStatistics(
            column_id=self.column.field_id,
            distinct_count=min(self._sketch.count(), value_count),
            null_count=self._null_count,
            minimum=self._text(self._minimum),
            maximum=self._text(self._maximum),
            average_length=average_length,
            length_max=length_max,
        )

    def _add_bounds(self, valid_values: pa.Array) -> None:
        if pa.types.is_floating(valid_values.type):
            self._has_nan = self._has_nan or pc.any(pc.is_nan(valid_values)).as_py()
        earlier_bounds = [bound for bound in (self._minimum, self._maximum) if bound is not None]
        earlier_values = pa.array(earlier_bounds, valid_values.type)
        bounds = pc.min_max(pa.concat_arrays([valid_values, earlier_values]))
        self._minimum, self._maximum = bounds["min"], bounds["max"]

    def _lengths(self, value_count: int) -> tuple[int | None, int | None]:
        """Return the average length, rounded up, and the maximum length; None without values."""
        root = self.column.data_type.root
        if root in STRING_ROOTS | BINARY_ROOTS:
            if not value_count:
                return None, None
            return -(-self._total_length // value_count), self._length_max
        if root is TypeRoot.DECIMAL:
            width = 8 if self.column.data_type.precision <= _SHORT_DECIMAL else 16
            return width, width
        return _WIDTHS[root], _WIDTHS[root]

    def _text(self, value: pa.Scalar | None) -> str | None:
        """Format a bound as Paimon does. Spark sorts NaN last, so a NaN removes both bounds."""
        if value is None or self._has_nan:
            return None
        data_type = self.column.data_type
        array = pa.array([value], value.type)
        if data_type.root in _INTEGER_TEXTS:
            return str(array.cast(pa.int32())[0].as_py())
        if data_type.root is TypeRoot.TIMESTAMP_LTZ:  # Paimon writes this type in UTC
            array = array.cast(pa.timestamp(value.type.unit))
            data_type = replace(data_type, root=TypeRoot.TIMESTAMP)
        text: str = read_as(array, data_type, _STRING)[0].as_py()
        return text
