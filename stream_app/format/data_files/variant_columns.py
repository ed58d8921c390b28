"""Converts VARIANT columns of a Parquet file from any of Paimon's forms to one form.

A file may have the two members in another order, or typed columns beside them (shredded).
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from stream_app.format.data_files.damaged_files import damaged_file_error
from stream_app.variants.layout import METADATA, TYPED_VALUE, VALUE, VARIANT_TYPE, is_variant
from stream_app.variants.shredded import whole_variants
from stream_app.variants.variant_reader import MalformedVariantError


def with_whole_variants(batch: pa.RecordBatch, fields: Sequence[pa.Field]) -> pa.RecordBatch:
    """Return the batch with only VARIANT's two members in columns of this type.

    Raises:
        CorruptFileError: the parts of a value contradict each other.
    """
    for index, field in enumerate(fields):
        column = batch.column(index)
        if is_variant(field.type) and not is_variant(column.type):
            batch = batch.set_column(index, field.name, _as_variant(column, field.name))
    return batch


def _as_variant(column: pa.Array, name: str) -> pa.Array:
    arrow_type = column.type
    if not pa.types.is_struct(arrow_type) or arrow_type.get_field_index(METADATA) < 0:
        return column  # another type, which the caller refuses
    try:
        if arrow_type.get_field_index(TYPED_VALUE) >= 0:
            return whole_variants(column)
    except MalformedVariantError as error:
        raise damaged_file_error(f"column {name!r}: {error}") from error
    members = [column.field(part) for part in (VALUE, METADATA)]
    fields = [pa.field(member.name, pa.binary()) for member in VARIANT_TYPE]
    return pa.StructArray.from_arrays(members, fields=fields, mask=column.is_null())
