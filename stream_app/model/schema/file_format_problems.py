"""Reports VARIANT and VECTOR columns that data files cannot store, and options without vectors.

Source: Paimon `format/orc/OrcTypeUtil.java`, `format/avro/AvroSchemaConverter.java`,
`schema/SchemaValidation.java`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stream_app.model.options.core_options import CoreOptions
from stream_app.model.options.file_options import FILE_FORMAT, FILE_FORMAT_PER_LEVEL
from stream_app.model.schema.data_type import DataType, RowType, TypeRoot

_VECTOR_FIELD = "vector-field"


def variant_problems(columns: RowType, options: Mapping[str, str]) -> Iterator[str]:
    """Yield texts about VARIANT columns that cannot be stored."""
    with_variants = [column for column in columns if _holds(TypeRoot.VARIANT, column.data_type)]
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


def vector_problems(columns: RowType, options: Mapping[str, str]) -> Iterator[str]:
    """Yield texts about VECTOR columns that cannot be stored."""
    formats = (options.get(option.key, "") for option in (FILE_FORMAT, FILE_FORMAT_PER_LEVEL))
    is_orc = any("orc" in text for text in formats)
    for column in columns:
        if is_orc and _holds(TypeRoot.VECTOR, column.data_type):
            yield (
                f"column {column.name!r} is {column.data_type}, which files of ORC cannot hold: "
                f"set {FILE_FORMAT.key} = {FILE_FORMAT.default}"
            )
    vectors = [column.name for column in columns if column.data_type.root is TypeRoot.VECTOR]
    column_names = (name.strip() for name in options.get(_VECTOR_FIELD, "").split(","))
    for name in column_names:
        if name and name not in vectors:
            yield f"{_VECTOR_FIELD} names {name!r}, which is not a column of type VECTOR"


def _holds(root: TypeRoot, data_type: DataType) -> bool:
    return data_type.root is root or any(_holds(root, inner) for inner in data_type.inner)
