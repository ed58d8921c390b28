"""A column of the table and its type in the source → what becomes of the column.

Source: Paimon `flink/sink/cdc/UpdatedDataFieldsProcessFunctionBase.java#canConvert`. Different
here: a wider DECIMAL, CHAR or BINARY holds all values of both types, and TIMESTAMP_LTZ grows as
TIMESTAMP does.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from stream_app.model.schema.data_type import (
    BINARY_ROOTS,
    DECIMAL_PRECISION_MAX,
    FLOAT_ROOTS,
    INTEGER_ROOTS,
    STRING,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    DataType,
    TypeRoot,
)
from stream_app.model.schema.mapping_options import MappingMode, MappingOptions

_ORDER = (
    *(TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT),
    *(TypeRoot.FLOAT, TypeRoot.DOUBLE),
)
"""Numbers, each wider than the one before it in its family."""


class MergeKind(enum.Enum):
    """What becomes of a column."""

    SAME = "same"
    WIDENED = "widened"
    NARROWER = "narrower"
    """The source's type holds less: the column keeps its type."""
    INCOMPATIBLE = "incompatible"
    """The types have nothing in common: the column keeps its type."""


@dataclass(frozen=True, slots=True)
class Merge:
    """The outcome for one column, and the type that it has then."""

    kind: MergeKind
    data_type: DataType


def merge_types(column: DataType, source: DataType, options: MappingOptions) -> Merge:
    """Merge a column's type with that of the source; nullability stays the column's.

    A nested column is filled by texts of JSON as well, so it keeps its type beside any other.
    """
    if column.is_nested:
        return Merge(MergeKind.SAME, column)
    wanted = _wider(column.as_nullable(), source.as_nullable(), options)
    if wanted is None:
        return Merge(MergeKind.INCOMPATIBLE, column)
    if wanted == column.as_nullable():
        is_same = source.as_nullable() == wanted
        return Merge(MergeKind.SAME if is_same else MergeKind.NARROWER, column)
    if _keeps_its_type(column, options):
        return Merge(MergeKind.SAME, column)
    return Merge(MergeKind.WIDENED, wanted if column.nullable else wanted.not_null())


def _keeps_its_type(column: DataType, options: MappingOptions) -> bool:
    is_decimal = column.root is TypeRoot.DECIMAL
    return MappingMode.NO_CHANGE in options or (
        is_decimal and MappingMode.DECIMAL_NO_CHANGE in options
    )


def _wider(column: DataType, source: DataType, options: MappingOptions) -> DataType | None:
    """The least type with the values of both, of the column's family; None: there is none."""
    for roots in (INTEGER_ROOTS, FLOAT_ROOTS):
        if column.root in roots and source.root in roots:
            return max(column, source, key=lambda candidate: _ORDER.index(candidate.root))
    for roots in (STRING_ROOTS, BINARY_ROOTS):
        if column.root in roots and source.root in roots:
            return _longer(column, source)
    if column.root is TypeRoot.DECIMAL and source.root is TypeRoot.DECIMAL:
        return _decimal(column, source)
    if column.root is source.root and column.root in (TypeRoot.TIME, *TIMESTAMP_ROOTS):
        return max(column, source, key=lambda candidate: candidate.precision)
    if column.root is source.root:
        return column
    is_allowed = MappingMode.ALLOW_NON_STRING_TO_STRING in options
    return STRING if is_allowed and source.root in STRING_ROOTS else None


def _longer(column: DataType, source: DataType) -> DataType:
    """A text that is filled up becomes one that varies when its length changes."""
    if column.length >= source.length:
        return column
    varying = TypeRoot.VARCHAR if column.root in STRING_ROOTS else TypeRoot.VARBINARY
    root = column.root if column.root is source.root else varying
    return replace(source, root=root)


def _decimal(column: DataType, source: DataType) -> DataType | None:
    scale = max(column.scale, source.scale)
    digits = max(column.precision - column.scale, source.precision - source.scale)
    if digits + scale > DECIMAL_PRECISION_MAX:
        return None
    return DataType(root=TypeRoot.DECIMAL, precision=digits + scale, scale=scale)
