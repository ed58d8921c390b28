"""Prints VARIANTs as JSON with every digit; an object's members are sorted by name.

Values that JSON lacks become texts: bytes in base64, dates, times and UUIDs in their usual form,
and "NaN", "Infinity" and "-Infinity".
"""

from __future__ import annotations

import base64
import math
import uuid

import numpy as np
import orjson
import pyarrow as pa

from stream_app.variants import layout
from stream_app.variants.variant_reader import MalformedVariantError, Variant


def variant_texts(column: pa.Array) -> pa.Array:
    """Return the documents of a column as strings; null stays null.

    Raises:
        MalformedVariantError: a value is damaged.
    """
    values, metadata = (column.field(name).to_pylist() for name in (layout.VALUE, layout.METADATA))
    texts = [
        variant_json(Variant(value, names)) if is_valid else None
        for value, names, is_valid in zip(
            values, metadata, column.is_valid().to_pylist(), strict=True
        )
    ]
    return pa.array(texts, pa.string())


def variant_json(variant: Variant) -> str:
    """Return one value as JSON.

    Raises:
        MalformedVariantError: the value is damaged, or nests too deeply.
    """
    try:
        return _json_text(variant)
    except RecursionError:
        raise MalformedVariantError from None


def _json_text(variant: Variant) -> str:
    match variant.basic_kind:
        case layout.OBJECT:
            members = (f"{_quote(name)}:{_json_text(value)}" for name, value in variant.members())
            return f"{{{','.join(members)}}}"
        case layout.ARRAY:
            return f"[{','.join(map(_json_text, variant.elements()))}]"
        case layout.SHORT_TEXT:
            return _quote(str(variant.scalar()))
        case _:
            return _scalar_text(variant)


def _scalar_text(variant: Variant) -> str:
    """Return a scalar as JSON; a value that JSON lacks becomes a quoted text."""
    value, kind = variant.scalar(), variant.kind
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():
            return _float_text(value, is_single=kind == layout.FLOAT)
        case str():
            return _quote(value)
        case bytes():
            is_uuid = kind == layout.UUID
            text = str(uuid.UUID(bytes=value)) if is_uuid else base64.b64encode(value).decode()
            return _quote(text)
        case int() if kind == layout.DATE:
            return _quote(str(np.datetime64(value, "D")))
        case int() if kind in (layout.TIMESTAMP, layout.TIMESTAMP_NTZ):
            zone = "Z" if kind == layout.TIMESTAMP else ""
            return _quote(f"{np.datetime64(value, 'us')}{zone}")
        case _:
            return f"{value:f}" if kind in layout.DECIMALS else str(value)


def _float_text(value: float, *, is_single: bool) -> str:
    if math.isfinite(value):
        return str(np.float32(value)) if is_single else repr(value)
    return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'


def _quote(text: str) -> str:
    return orjson.dumps(text).decode()
