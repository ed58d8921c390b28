"""Names the folder of a partition, ``dt=2024-01-01/hour=3``.

Readers compute the folder from the partition's bytes, so each character must match.

Source: Paimon `utils/PartitionPathUtils.java`, `utils/InternalRowPartitionComputer.java`,
`utils/DateTimeUtils.java`.
"""

from __future__ import annotations

import decimal
import math
import re
from collections.abc import Mapping, Sequence

import numpy as np

from stream_app.errors import UnsupportedTableError
from stream_app.format.binary_row import scaled_decimal, unscaled_decimal
from stream_app.model.schema.data_type import (
    BINARY_ROOTS,
    FLOAT_ROOTS,
    TIMESTAMP_ROOTS,
    DataField,
    DataType,
    RowType,
    TypeRoot,
)

_ESCAPED_CHARACTERS = re.compile("[\x00-\x1f\x7f\"#%'*/:=?\\\\{}\\[\\]^]")
_JAVA_BLANK = re.compile(
    "[\t-\r\x1c-\x20\u1680\u2000-\u2006\u2008-\u200a\u2028\u2029\u205f\u3000]*"
)
"""Characters that Java's Character.isWhitespace accepts, which excludes no-break spaces."""

_NANOS_OF_SECOND = 1_000_000_000
_NANOS_OF_DAY = 86_400 * _NANOS_OF_SECOND
_PLAIN_FLOAT_MIN, _PLAIN_FLOAT_MAX = 1e-3, 1e7


def partition_path(
    values: Sequence[object], partition_type: RowType, *, default_name: str, uses_legacy_names: bool
) -> str:
    """Return the folder below the table's, without a final slash; empty without partitions.

    Args:
        values: values in the convention of `binary_row`.
        default_name: ``partition.default-name``, the name of null, empty and blank values.
        uses_legacy_names: ``partition.legacy-name``; by default a DATE is named by its day number.

    Raises:
        UnsupportedTableError: Paimon's name for such a column differs between machines.
    """
    spec = partition_spec(
        values, partition_type, default_name=default_name, uses_legacy_names=uses_legacy_names
    )
    return spec_path(spec)


def spec_path(spec: Mapping[str, str]) -> str:
    """Return the folder of a partition with the texts of `partition_spec`."""
    return "/".join(partition_component(name, text) for name, text in spec.items())


def partition_spec(
    values: Sequence[object], partition_type: RowType, *, default_name: str, uses_legacy_names: bool
) -> dict[str, str]:
    """Return column → value as text; arguments and errors as `partition_path`."""
    spec = {}
    for value, field in zip(values, partition_type, strict=True):
        text = (
            "" if value is None else _named_text(value, field, uses_legacy_names=uses_legacy_names)
        )
        spec[field.name] = default_name if _JAVA_BLANK.fullmatch(text) else text
    return spec


def value_texts(values: Sequence[object], partition_type: RowType) -> list[str | None]:
    """Return each value as users write it, a DATE as a date; null stays None.

    Raises:
        UnsupportedTableError: as `partition_path`.
    """
    return [
        None if value is None else _named_text(value, field, uses_legacy_names=False)
        for value, field in zip(values, partition_type, strict=True)
    ]


def partition_component(name: str, text: str) -> str:
    """Return one component of the path from a column's name and its value's text."""
    return f"{_escape(name)}={_escape(text)}"


def _escape(text: str) -> str:
    return _ESCAPED_CHARACTERS.sub(lambda match: f"%{ord(match[0]):02X}", text)


def _named_text(value: object, field: DataField, *, uses_legacy_names: bool) -> str:
    root = field.data_type.root
    if root in BINARY_ROOTS or (root is TypeRoot.TIMESTAMP_LTZ and not uses_legacy_names):
        raise UnsupportedTableError(
            f"the partition column {field.name!r} is {field.data_type}, whose directory name "
            "depends on the machine that writes it",
            fix="partition by a STRING or INT column",
        )
    return partition_value_text(value, field.data_type, uses_legacy_names=uses_legacy_names)


def partition_value_text(value: object, data_type: DataType, *, uses_legacy_names: bool) -> str:
    """Return the text to which Paimon casts a value; a TIMESTAMP_LTZ is in UTC.

    Args:
        value: a value in the convention of `binary_row`, not None.
        uses_legacy_names: whether to format as Java prints the object, DATE and TIME as numbers.
            Bytes, for which Java prints an address, become hexadecimal digits.
    """
    root = data_type.root
    if root in BINARY_ROOTS:
        assert isinstance(value, bytes), value
        return value.hex() if uses_legacy_names else value.decode(errors="replace")
    if root is TypeRoot.BOOLEAN:
        return "true" if value else "false"
    if root in FLOAT_ROOTS:
        assert isinstance(value, float), value
        return _java_float_text(value, is_single_precision=root is TypeRoot.FLOAT)
    if root is TypeRoot.DECIMAL:
        assert isinstance(value, decimal.Decimal), value
        return f"{scaled_decimal(unscaled_decimal(value, data_type.scale), data_type.scale):f}"
    if root in TIMESTAMP_ROOTS or (
        root in (TypeRoot.DATE, TypeRoot.TIME) and not uses_legacy_names
    ):
        assert isinstance(value, int), value
        return _temporal_text(value, data_type, uses_legacy_names=uses_legacy_names)
    return str(value)


def _temporal_text(value: int, data_type: DataType, *, uses_legacy_names: bool) -> str:
    if data_type.root is TypeRoot.DATE:
        return _date_text(value)
    if data_type.root is TypeRoot.TIME:
        return _time_text(value, data_type.precision)
    day, nanos = divmod(value, _NANOS_OF_DAY)
    second, fraction = divmod(nanos, _NANOS_OF_SECOND)
    clock = f"{second // 3600:02}:{second // 60 % 60:02}"
    if uses_legacy_names:
        # Java's LocalDateTime omits trailing groups that are zero.
        if second % 60 or fraction:
            clock += f":{second % 60:02}"
        return f"{_date_text(day)}T{clock}{_fraction_in_threes(fraction)}"
    digits = f"{fraction:09}".rstrip("0").ljust(data_type.precision, "0")
    return f"{_date_text(day)} {clock}:{second % 60:02}" + (f".{digits}" if digits else "")


def _fraction_in_threes(fraction: int) -> str:
    if not fraction:
        return ""
    digits = f"{fraction:09}"
    for length in (3, 6):
        if not digits[length:].strip("0"):
            return "." + digits[:length]
    return "." + digits


def _date_text(day: int) -> str:
    """Format a date as Java's ISO text: four digits of the year, or a plus and more digits."""
    year, month, day_of_month = str(np.datetime64(day, "D")).rsplit("-", 2)
    signed_year = int(year)
    sign = "-" if signed_year < 0 else "+" if signed_year > 9999 else ""
    return f"{sign}{abs(signed_year):04}-{month}-{day_of_month}"


def _time_text(time_ms: int, precision: int) -> str:
    second, fraction = divmod(time_ms, 1000)
    text = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
    if precision == 0:
        return text
    return f"{text}.{f'{fraction:03}'[:precision].rstrip('0') or '0'}"


def _java_float_text(value: float, *, is_single_precision: bool) -> str:
    """Format a float as Java does, with the shortest digits: ``1.5``, ``1.0E20``, ``-Infinity``."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    typed_value = np.float32(value) if is_single_precision else np.float64(value)
    if value == 0 or _PLAIN_FLOAT_MIN <= abs(value) < _PLAIN_FLOAT_MAX:
        return np.format_float_positional(typed_value, unique=True, trim="0")
    mantissa, _, exponent = np.format_float_scientific(
        typed_value, unique=True, trim="0"
    ).partition("e")
    return f"{mantissa}E{int(exponent)}"
