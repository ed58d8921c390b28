"""Reports VARIANT columns that data files cannot store.

Source: Paimon `format/orc/OrcTypeUtil.java`, `format/avro/AvroSchemaConverter.java`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stream_app.model.options.core_options import CoreOptions
from stream_app.model.options.file_options import FILE_FORMAT, FILE_FORMAT_PER_LEVEL
from stream_app.model.schema.data_type import DataType, RowType, TypeRoot


def variant_problems(columns: RowType, options: Mapping[str, str]) -> Iterator[str]:
    """Yield texts about VARIANT columns that cannot be stored."""
    with_variants = [column for column in columns if _holds_variant(column.data_type)]
    if not with_variants:
        return
    core = CoreOptions(options)
    formats = {core[FILE_FORMAT], *core[FILE_FORMAT_PER_LEVEL].values()} - {FILE_FORMAT.default}
    for column in with_variants:
        if column.data_type.root is not TypeRoot.VARIANT:
            yield (
                f"column {column.name!r} is {column.data_type}: a VARIANT can be in no other type, "
                "so make the column VARIANT"
            )
        elif formats:
            yield (
                f"column {column.name!r} is VARIANT, which files of {', '.join(sorted(formats))} "
                f"cannot hold: set {FILE_FORMAT.key} = {FILE_FORMAT.default}"
            )


def _holds_variant(data_type: DataType) -> bool:
    is_variant = data_type.root is TypeRoot.VARIANT
    return is_variant or any(map(_holds_variant, data_type.inner))
