"""The binary format of a VARIANT: a tree of values, and a dictionary of names.

``value`` has a tree of values. The two lowest bits of a value's first byte are its basic kind. The
upper bits are the kind of a scalar, the length of a text, or the widths of a container's numbers.
Numbers are little-endian. ``metadata`` has the names of members; objects refer to them by number.

Source: Parquet's `VariantEncoding.md`; Paimon `data/variant/GenericVariantUtil.java`.
"""

from __future__ import annotations

import pyarrow as pa

VALUE, METADATA, TYPED_VALUE = "value", "metadata", "typed_value"
VARIANT_TYPE = pa.struct(
    [
        pa.field(VALUE, pa.binary(), nullable=False),
        pa.field(METADATA, pa.binary(), nullable=False),
    ]
)
"""A column of VARIANT in Arrow. In files, a shredded column has a third member, `typed_value`."""

PRIMITIVE, SHORT_TEXT, OBJECT, ARRAY = range(4)
"""The basic kinds of values."""
NULL, TRUE, FALSE, INT1, INT2, INT4, INT8, DOUBLE, DECIMAL4, DECIMAL8, DECIMAL16 = range(11)
DATE, TIMESTAMP, TIMESTAMP_NTZ, FLOAT, BINARY, LONG_TEXT = range(11, 17)
UUID = 20
"""The kinds of scalars."""

INTEGER_SIZES = {INT1: 1, INT2: 2, INT4: 4, INT8: 8}
DECIMALS = {DECIMAL4: (4, 9), DECIMAL8: (8, 18), DECIMAL16: (16, 38)}
"""Each kind of decimal → the bytes and the maximum digits of its values."""
SCALAR_SIZES = {
    **dict.fromkeys((NULL, TRUE, FALSE), 0),
    **INTEGER_SIZES,
    **{kind: 1 + size for kind, (size, _) in DECIMALS.items()},
    **{DOUBLE: 8, DATE: 4, TIMESTAMP: 8, TIMESTAMP_NTZ: 8, FLOAT: 4, UUID: 16},
}
"""Kind of scalar → the bytes after the first one. Texts and binaries record their own length."""

SHORT_TEXT_MAX = 63
SMALL_COUNT_MAX = 255
"""The maximum number of members that an object or an array counts in one byte, not in four."""
ENCODING_VERSION = 1
SIZE_MAX = 128 << 20
"""The maximum bytes of a value, and of its metadata; readers refuse more."""
VARIANT_NESTING_MAX = 200
"""The maximum number of levels of a value, because functions recurse into each level."""


def is_variant(data_type: pa.DataType) -> bool:
    """Return whether an Arrow type is VARIANT's; a ROW with the same two members looks the same."""
    return bool(data_type == VARIANT_TYPE)


def number_size(value: int) -> int:
    """Return the bytes that an unsigned number takes."""
    return max(1, (value.bit_length() + 7) // 8)
