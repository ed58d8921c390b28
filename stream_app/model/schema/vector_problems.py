"""Reports VECTOR columns that data files cannot store, and options that name no vectors.

Source: Paimon `format/orc/OrcTypeUtil.java`, `schema/SchemaValidation.java`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stream_app.model.options.file_options import FILE_FORMAT, FILE_FORMAT_PER_LEVEL
from stream_app.model.schema.data_type import DataType, RowType, TypeRoot

_VECTOR_FIELD = "vector-field"


def vector_problems(columns: RowType, options: Mapping[str, str]) -> Iterator[str]:
    """Yield texts about VECTOR columns that cannot be stored."""
    formats = (options.get(option.key, "") for option in (FILE_FORMAT, FILE_FORMAT_PER_LEVEL))
    is_orc = any("orc" in text for text in formats)
    for column in columns:
        if is_orc and _holds_vector(column.data_type):
            yield (
                f"column {column.name!r} is {column.data_type}, which files of ORC cannot hold: "
                f"set {FILE_FORMAT.key} = {FILE_FORMAT.default}"
            )
    vectors = [column.name for column in columns if column.data_type.root is TypeRoot.VECTOR]
    column_names = (name.strip() for name in options.get(_VECTOR_FIELD, "").split(","))
    for name in column_names:
        if name and name not in vectors:
            yield f"{_VECTOR_FIELD} names {name!r}, which is not a column of type VECTOR"


def _holds_vector(data_type: DataType) -> bool:
    return data_type.root is TypeRoot.VECTOR or any(map(_holds_vector, data_type.inner))
