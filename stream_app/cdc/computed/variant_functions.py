"""Takes values out of VARIANTs, by a path and as a type; each is read by itself.

A text is read as the value that it spells: "5" is an INT 5. Objects and arrays become their JSON,
which only a text takes. A missing value and JSON's null are null.

Source: Spark's `variant_get`; a value that does not fit fails here too.
"""

from __future__ import annotations

import pyarrow as pa

from stream_app.cdc.columns.column_cast import cast_alone
from stream_app.cdc.columns.column_reading import ColumnReading, JsonKind
from stream_app.cdc.columns.nested_columns import cast_cells
from stream_app.cdc.columns.time_columns import CastResult
from stream_app.variants import layout
from stream_app.variants.json_texts import variant_json
from stream_app.variants.paths import VariantPath, at_path
from stream_app.variants.variant_reader import Variant


def variant_get(values: pa.Array, path: VariantPath, reading: ColumnReading) -> CastResult:
    """Return the values at a path [n], and the mask of those that do not fit.

    Args:
        values: `layout.VARIANT_TYPE` [n].
        reading: the reading of texts as the wanted type.
    """
    documents, names = (values.field(part).to_pylist() for part in (layout.VALUE, layout.METADATA))
    validity = values.is_valid().to_pylist()
    cells = [
        _cell(at_path(Variant(document, metadata), path)) if is_valid else None
        for document, metadata, is_valid in zip(documents, names, validity, strict=True)
    ]
    return cast_cells(reading, cells, cast_alone)


def _cell(variant: Variant | None) -> tuple[JsonKind, str] | None:
    if variant is None:
        return None
    is_container = variant.basic_kind in (layout.OBJECT, layout.ARRAY)
    value = None if is_container else variant.scalar()
    match value:
        case str():
            return JsonKind.STRING, value
        case None if not is_container:
            return None
        case _:
            return JsonKind.STRING, variant_json(variant)
