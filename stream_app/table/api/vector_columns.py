"""Shows VECTOR columns as Arrow's fixed-size lists, which vector libraries expect.

Data files, merges and changes use variable-size lists, in which a null takes no space. Vectors
inside nested columns stay variable-size lists.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from stream_app.model.schema.data_type import RowType, TypeRoot


def shown_schema(columns: RowType, schema: pa.Schema) -> pa.Schema:
    """Return the Arrow schema with VECTOR columns as fixed-size lists."""
    lengths = {
        column.name: column.data_type.length
        for column in columns
        if column.data_type.root is TypeRoot.VECTOR
    }
    for index, field in enumerate(schema):
        if length := lengths.get(field.name):
            list_type = pa.list_(field.type.value_field, length)
            schema = schema.set(index, field.with_type(list_type))
    return schema


def shown_batches(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches cast to the result of `shown_schema`."""
    if not any(pa.types.is_fixed_size_list(field.type) for field in schema):
        return batches
    return (
        pa.RecordBatch.from_arrays(
            [
                _vectors(values, field.type) if pa.types.is_fixed_size_list(field.type) else values
                for field, values in zip(schema, batch.columns, strict=True)
            ],
            schema=schema,
        )
        for batch in batches
    )


def _vectors(values: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Convert variable-size lists of equal length, or null, to fixed-size lists."""
    nulls = values.is_null()
    starts = values.offsets.to_numpy()[:-1].astype(np.int64)
    indices = starts[:, None] + np.arange(data_type.list_size)
    is_hidden = np.repeat(nulls.to_numpy(zero_copy_only=False), data_type.list_size)
    elements = values.values.take(pa.array(indices.ravel(), mask=is_hidden))
    return pa.FixedSizeListArray.from_arrays(elements, type=data_type, mask=nulls)
