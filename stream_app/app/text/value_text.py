"""Prints a table's values as text, column by column and with every digit.

==================  ======================================  ===================================
type                plain                                   JSON
==================  ======================================  ===================================
BOOLEAN             true, false                             the same
integers, DECIMAL   all digits: 12.50                       a number with all digits: 12.50
FLOAT, DOUBLE       the shortest text that reads back       a number; "NaN", "Infinity",
                                                            "-Infinity" as texts
CHAR, VARCHAR       as it is                                a text
BINARY, VARBINARY   base64                                  a text of base64
DATE                2024-02-29                              the same, as a text
TIME                12:34:56.789                            the same, as a text
TIMESTAMP           2024-02-29T12:34:56.789, with as many   the same, as a text
                    digits as the column stores
TIMESTAMP_LTZ       the same in UTC, with Z at the end      the same, as a text
ARRAY, VECTOR       its JSON                                an array
MAP, ROW            its JSON                                an object; a MAP's keys are texts
VARIANT             its JSON                                any, see `variants.json_texts`
null                null                                    null
==================  ======================================  ===================================
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from decimal import Decimal

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.errors import CorruptFileError
from stream_app.format.arrow_schema import arrow_scalar, arrow_type
from stream_app.model.schema.data_type import DataType
from stream_app.variants.json_texts import variant_texts
from stream_app.variants.layout import is_variant
from stream_app.variants.variant_reader import MalformedVariantError

_JSON_UNSAFE = r'[\x00-\x1f\x7f"\\]'


def plain_texts(column: pa.Array) -> pa.Array:
    """Return the column as strings, in which null stays null."""
    column_type = column.type
    if is_variant(column_type):
        return _document_texts(column)
    if pa.types.is_nested(column_type):
        return _nested_texts(column)
    if pa.types.is_string(column_type):
        return column
    if pa.types.is_binary(column_type):
        return base64_texts(column)
    if pa.types.is_decimal(column_type):
        return _decimal_texts(column)
    if pa.types.is_floating(column_type):
        return _float_texts(column)
    if pa.types.is_timestamp(column_type):
        # Without its zone, Arrow needs no time zone database.
        texts = pc.replace_substring(
            column.cast(pa.timestamp(column_type.unit)).cast(pa.string()), " ", "T"
        )
        return texts if column_type.tz is None else pc.binary_join_element_wise(texts, "Z", "")
    return column.cast(pa.string())


def json_texts(column: pa.Array) -> pa.Array:
    """Return each row's value as JSON text; null becomes ``null``."""
    column_type = column.type
    texts = plain_texts(column)
    if pa.types.is_string(column_type):
        texts = _quoted_strings(texts)
    elif pa.types.is_floating(column_type):
        is_special = pc.match_substring_regex(texts, "[NI]")  # NaN, Infinity
        texts = pc.if_else(is_special, _in_quotes(texts), texts)
    elif pa.types.is_binary(column_type) or pa.types.is_temporal(column_type):
        texts = _in_quotes(texts)
    return texts.fill_null("null")


def _document_texts(column: pa.Array) -> pa.Array:
    try:
        return variant_texts(column)
    except MalformedVariantError as error:
        raise CorruptFileError(
            f"a value has no JSON text: {error}",
            fix="write the row again, or leave the VARIANT out by --columns",
        ) from error


def _nested_texts(column: pa.Array) -> pa.Array:
    """Return string [n]: structs, lists and maps as JSON; null for null."""
    column_type = column.type
    if pa.types.is_fixed_size_list(column_type):  # a VECTOR
        return _nested_texts(column.cast(pa.list_(column_type.value_field)))
    if pa.types.is_struct(column_type):
        texts = json_lines([field.name for field in column_type], column.flatten())
    else:
        # `take` drops the elements of nulls, and those outside of a slice.
        column = column.take(pa.array(range(len(column)), pa.int64()))
        offsets = column.offsets
        if pa.types.is_map(column_type):
            keys = _quoted_strings(plain_texts(column.keys))
            element_texts = pc.binary_join_element_wise(keys, json_texts(column.items), ":")
        else:
            element_texts = json_texts(column.values)
        joined_elements = pc.binary_join(pa.ListArray.from_arrays(offsets, element_texts), ",")
        brackets = ("{", "}") if pa.types.is_map(column_type) else ("[", "]")
        texts = pc.binary_join_element_wise(brackets[0], joined_elements, brackets[1], "")
    return pc.if_else(column.is_valid(), texts, None)


def json_lines(names: Sequence[str], columns: Sequence[pa.Array]) -> pa.Array:
    """Return each row as the text of a JSON object."""
    parts: list[object] = [] if names else ["{"]
    for index, (name, column) in enumerate(zip(names, columns, strict=True)):
        parts.append(("," if index else "{") + orjson.dumps(name).decode() + ":")
        parts.append(json_texts(column))
    return pc.binary_join_element_wise(*parts, "}", "")


def base64_texts(column: pa.Array) -> pa.Array:
    """Return bytes as base64 texts."""
    texts = (
        None if value is None else base64.b64encode(value).decode() for value in column.to_pylist()
    )
    return pa.array(texts, pa.string())


def row_values_texts(values: Sequence[object], types: Sequence[DataType]) -> list[str | None]:
    """Return values in the convention of `format.binary_row` as plain texts."""
    return [
        None if value is None else _plain_text(value, data_type)
        for value, data_type in zip(values, types, strict=True)
    ]


def _plain_text(value: object, data_type: DataType) -> str:
    text: str = plain_texts(pa.array([arrow_scalar(value, data_type)], arrow_type(data_type)))[
        0
    ].as_py()
    return text


def _decimal_texts(column: pa.Array) -> pa.Array:
    texts = column.cast(pa.string())
    # Arrow writes small decimals as 1.2E-9, which is exact but unusual.
    if pc.any(pc.match_substring(texts, "E")).as_py():
        plain = (None if text is None else f"{Decimal(text):f}" for text in texts.to_pylist())
        return pa.array(plain, pa.string())
    return texts


def _float_texts(column: pa.Array) -> pa.Array:
    texts = column.cast(pa.string())
    # Most JSON readers parse a number without a point as an integer, and so lose the sign of -0.
    has_no_point = pc.match_substring_regex(texts, "^-?[0-9]+$")
    texts = pc.if_else(has_no_point, pc.binary_join_element_wise(texts, ".0", ""), texts)
    is_special = pc.match_substring_regex(texts, "n")  # nan, inf
    if not pc.any(is_special).as_py():
        return texts
    for old, new in (("nan", "NaN"), ("-nan", "NaN"), ("inf", "Infinity"), ("-inf", "-Infinity")):
        texts = pc.if_else(pc.equal(texts, old), new, texts)
    return texts


def _quoted_strings(texts: pa.Array) -> pa.Array:
    is_unsafe = pc.match_substring_regex(texts, _JSON_UNSAFE)
    if not pc.any(is_unsafe).as_py():
        return _in_quotes(texts)
    escaped_texts = [orjson.dumps(text).decode() for text in texts.filter(is_unsafe).to_pylist()]
    return pc.replace_with_mask(_in_quotes(texts), is_unsafe, pa.array(escaped_texts, pa.string()))


def _in_quotes(texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', texts, '"', "")
