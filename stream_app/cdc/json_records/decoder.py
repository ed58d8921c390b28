"""Decodes records of one shape in columns, and others one by one, for every format of JSON.

1. Values are cut into slices.
2. Records of the same shape are decoded in columns; some formats do so by machine code, or from the
   images only. If the parser refuses some records, the decoder learns the shape again, and halves
   the slice until these records are isolated.
3. Other records are read one by one, with a final result.

Step 2 has three parsers. `decode_fast` tries machine code and frames, and `decode_whole` tries the
parse of whole messages. Each parser passes the records that it declines to the next one::

                decode_fast                       decode_whole        decode_one_by_one
    machine code ──slice──► frames ──slice──► parse of whole messages ──► step 3
         └──messages──────────┴──messages───────────▲

* Machine code declines a slice if Numba is missing, if the shape has no layout, or if it accepts
  less than half of the messages. Then the decoder skips it for some slices.
* Only Debezium has frames. They decline a slice of flattened records, a slice with few known
  frames, and a slice whose images do not have the shape.
* Both decline messages that they might misread. Neither is used if each record must be examined
  (`ColumnPolicy.examines_records`).
* The parse of whole messages leaves messages of other shapes to step 3. All three also leave
  records with a value that does not fit to step 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from stream_app.arrow_buffers import Bools, Int32s, Int64s, offsets_of
from stream_app.cdc.column_drift import ColumnPolicy
from stream_app.cdc.columns.column_reading import ColumnReading
from stream_app.cdc.columns.json_lines import looks_like_object, may_be_misread
from stream_app.cdc.columns.nesting_limit import are_too_deep
from stream_app.cdc.json_records.batch_outcome import BatchOutcome, ColumnarPart, ColumnarResult
from stream_app.cdc.json_records.dialect import ImagesOf
from stream_app.cdc.json_records.record_shapes import RecordShape, shape_of

_SLICE_ROWS_MAX = 32_768
_SLICE_BYTES_MAX = 32 << 20
"""The maximum rows and bytes of a slice, which limit the memory for its arrays."""
SAMPLE_ROW_COUNT = 16
"""The number of records that show the first shape."""
_HALVE_ROWS_MIN = 64
"""Minimum number of records that are halved; the decoder reads fewer records one by one."""


@dataclass(slots=True)
class SchemaGroup:
    """Messages of one schema, with the readings of their columns and the shape last seen."""

    readings: tuple[ColumnReading, ...]
    shape: RecordShape | None = None

    def learn_shape(
        self, values: pa.Array, policy: ColumnPolicy, images_of: ImagesOf
    ) -> RecordShape:
        """Return the shape of the group, and learn it from the first values if it is unknown."""
        if self.shape is None:
            sample = values.slice(0, SAMPLE_ROW_COUNT).to_pylist()
            self.shape, _ = shape_of(sample, self.readings, policy, images_of)
        return self.shape


GroupT = TypeVar("GroupT", bound=SchemaGroup)
Group_contra = TypeVar("Group_contra", bound=SchemaGroup, contravariant=True)


@dataclass(frozen=True, slots=True)
class PlacedValues:
    """Values of a batch, with the indices of their messages.

    Attributes:
        values: binary [n] without nulls.
        message_indices: int32 [n]; for each value the index of its message.
        messages: the batch.
    """

    values: pa.Array
    message_indices: Int32s
    messages: pa.RecordBatch

    def take(self, indices: Int64s) -> PlacedValues:
        """Return the values at these indices, ascending: int64 [m]."""
        if len(indices) == len(self.message_indices):
            return self
        # Ascending indices of such a span are side by side.
        if len(indices) and indices[-1] - indices[0] + 1 == len(indices):
            values = self.values.slice(int(indices[0]), len(indices))
        else:
            values = self.values.take(pa.array(indices))
        return replace(self, values=values, message_indices=self.message_indices[indices])

    def slices(self) -> Iterator[PlacedValues]:
        """Yield parts of at most `_SLICE_ROWS_MAX` values and `_SLICE_BYTES_MAX` bytes.

        A larger value is a part of its own.
        """
        offsets = offsets_of(self.values)
        start = 0
        while start < len(self.values):
            bytes_end = int(offsets[start]) + _SLICE_BYTES_MAX
            fitting_end = int(np.searchsorted(offsets, bytes_end, side="right")) - 1
            end = min(max(fitting_end, start + 1), start + _SLICE_ROWS_MAX, len(self.values))
            values = self.values.slice(start, end - start)
            yield replace(self, values=values, message_indices=self.message_indices[start:end])
            start = end


class ValueDecoder(Protocol[Group_contra]):
    """A format's decoder of values, with its three ways to decode them."""

    def decode_fast(
        self, placed_values: PlacedValues, group: Group_contra, /
    ) -> ColumnarPart | None:
        """Decode values by machine code or by frames; None if these accept too few values."""
        ...

    def decode_whole(
        self, placed_values: PlacedValues, shape: RecordShape, /
    ) -> ColumnarResult | None:
        """Parse whole values of a shape; None if they do not parse as this shape.

        Args:
            placed_values: each value is `json_lines.looks_like_object`.
        """
        ...

    def decode_one_by_one(
        self, placed_values: PlacedValues, group: Group_contra, outcome: BatchOutcome, /
    ) -> None:
        """Read values one by one, into the outcome of the batch."""
        ...


@dataclass(frozen=True, slots=True)
class ShapeDecoder(Generic[GroupT]):
    """A decoder of one group's values into the outcome of their batch."""

    value_decoder: ValueDecoder[GroupT]
    images_of: ImagesOf
    policy: ColumnPolicy
    group: GroupT
    outcome: BatchOutcome

    def decode(self, values: pa.Array, message_indices: Int32s) -> None:
        """Decode values of the group.

        Args:
            values: binary [n] without nulls.
            message_indices: int32 [n]; for each value the index of its message.
        """
        for part in PlacedValues(values, message_indices, self.outcome.messages).slices():  # step 1
            self._decode_slice(part)

    def _decode_slice(self, placed_values: PlacedValues) -> None:
        """Decode a slice in columns where that is possible, and suspicious values one by one."""
        is_suspect: Bools = np.zeros(len(placed_values.message_indices), np.bool_)
        is_undecoded: Bools = np.ones(len(placed_values.message_indices), np.bool_)
        fast_part = None
        if not self.policy.examines_records:
            fast_part = self.value_decoder.decode_fast(placed_values, self.group)  # step 2
        if fast_part is not None:
            self.outcome.add_columnar(
                fast_part.result, placed_values.message_indices[fast_part.indices]
            )
            is_suspect[fast_part.indices[fast_part.result.image_rows.is_suspect]] = True
            is_undecoded[fast_part.indices] = False
        if is_undecoded.any():
            is_suspect[is_undecoded] = self._decode_remaining(
                placed_values.take(np.flatnonzero(is_undecoded))
            )
        if is_suspect.any():
            self.value_decoder.decode_one_by_one(
                placed_values.take(np.flatnonzero(is_suspect)), self.group, self.outcome
            )

    def _decode_remaining(self, placed_values: PlacedValues) -> Bools:
        """Parse whole messages (step 2), and return the mask of values left for step 3."""
        values, group, policy = placed_values.values, self.group, self.policy
        is_candidate = looks_like_object(values) & ~are_too_deep(values)
        has_decimals = any(reading.holds_decimals for reading in group.readings)
        is_candidate &= ~may_be_misread(values, has_decimals=has_decimals)
        shape = group.shape
        if shape is None or policy.examines_records:
            sample_indices = np.flatnonzero(is_candidate)[
                : None if policy.examines_records else SAMPLE_ROW_COUNT
            ]
            shape, has_shape = self._learn_shape(placed_values.take(sample_indices))
            if policy.examines_records:
                is_candidate[sample_indices] = has_shape
        if not is_candidate.any():
            return ~is_candidate
        return self._decode_same_shape(placed_values, is_candidate, shape)

    def _learn_shape(self, placed_values: PlacedValues) -> tuple[RecordShape, Bools]:
        """Learn the commonest shape of these values; return it with the mask of values with it."""
        texts = placed_values.values.to_pylist()
        shape, has_shape = shape_of(texts, self.group.readings, self.policy, self.images_of)
        self.group.shape = shape
        return shape, has_shape

    def _decode_same_shape(
        self, placed_values: PlacedValues, is_candidate: Bools, shape: RecordShape
    ) -> Bools:
        """Decode the values of the same shape. Return the mask of values left for step 3."""
        is_suspect = ~is_candidate

        def decode_together(indices: Int64s, shape: RecordShape) -> bool:
            if not len(indices):
                return True
            part = placed_values.take(indices)
            result = self.value_decoder.decode_whole(part, shape)
            if result is None:
                return False
            is_suspect[indices[result.image_rows.is_suspect]] = True
            self.outcome.add_columnar(result, part.message_indices)
            return True

        indices = np.flatnonzero(is_candidate)
        if decode_together(indices, shape):
            return is_suspect
        # Later batches begin with this shape.
        shape, has_shape = self._learn_shape(placed_values.take(indices))
        is_suspect[indices[~has_shape]] = True
        parts = [indices[has_shape]]
        while parts:  # isolate the few values that the parser refuses among many of the same shape
            indices = parts.pop()
            if decode_together(indices, shape):
                continue
            if len(indices) <= _HALVE_ROWS_MIN:
                is_suspect[indices] = True
            else:
                half = len(indices) // 2
                parts += [indices[half:], indices[:half]]
        return is_suspect
