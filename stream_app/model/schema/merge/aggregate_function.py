"""Lists the aggregate functions of columns, and the types that they accept.

`mergetree.merge_engines.aggregates` defines how a function computes.

Source: Paimon 1.4 `mergetree/compact/aggregate/factory/*.java`, `utils/InternalRowUtils.java`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from stream_app.model.schema.data_type import (
    FLOAT_ROOTS,
    INTEGER_ROOTS,
    NESTED_ROOTS,
    STRING_MAX,
    DataType,
    TypeRoot,
)

_ALL = frozenset(TypeRoot)
_NUMBERS = INTEGER_ROOTS | FLOAT_ROOTS | {TypeRoot.DECIMAL}
_ARRAY, _MAP = frozenset({TypeRoot.ARRAY}), frozenset({TypeRoot.MAP})


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionTraits:
    """Facts of one aggregate function.

    Attributes:
        roots: the column types that the function accepts.
        is_unbounded: whether STRING is the only accepted text type, because results grow.
        accepts_retracts: whether it can undo a -U or -D row.
        retracts_by_division: whether it divides to undo a row, so a zero cannot be undone.
        needs_rows: whether an ARRAY's elements, or a MAP's values, must be ROWs.
        counts_repeats: whether a repeated value changes the result.
        distinct_option: the column's option that prevents that.
    """

    roots: frozenset[TypeRoot] = _ALL
    is_unbounded: bool = False
    accepts_retracts: bool = False
    retracts_by_division: bool = False
    needs_rows: bool = False
    counts_repeats: bool = False
    distinct_option: str = ""

    def accepts(self, data_type: DataType) -> bool:
        """Return whether the function can aggregate a column of this type."""
        element = data_type.element
        if self.needs_rows and (element is None or element.root is not TypeRoot.ROW):
            return False
        fits = not self.is_unbounded or data_type.length == STRING_MAX
        return data_type.root in self.roots and fits

    @property
    def accepted_types(self) -> str:
        """A text about the types that the function accepts."""
        if self.is_unbounded:
            return "STRING"
        row_types = {TypeRoot.ARRAY: "ARRAY<ROW>", TypeRoot.MAP: "MAP<key, ROW>"}
        type_names = (row_types[root] if self.needs_rows else root.value for root in self.roots)
        return ", ".join(sorted(type_names))


_KEEPS = FunctionTraits(accepts_retracts=True)
_FIRST = FunctionTraits()
_ORDERED_VALUES = FunctionTraits(roots=_ALL - NESTED_ROOTS - {TypeRoot.BOOLEAN, TypeRoot.BLOB})
_TRUTHS = FunctionTraits(roots=frozenset({TypeRoot.BOOLEAN}))
_UNIONS = FunctionTraits(roots=frozenset({TypeRoot.VARBINARY}))
_SUMS = FunctionTraits(roots=_NUMBERS, accepts_retracts=True, counts_repeats=True)

AGGREGATE_FUNCTIONS: Mapping[str, FunctionTraits] = {
    "bool_and": _TRUTHS,
    "bool_or": _TRUTHS,
    "collect": FunctionTraits(
        roots=_ARRAY, accepts_retracts=True, counts_repeats=True, distinct_option="distinct"
    ),
    "first_non_null_value": _FIRST,
    "first_not_null_value": _FIRST,
    "first_value": _FIRST,
    "hll_sketch": _UNIONS,
    "last_non_null_value": _KEEPS,
    "last_value": _KEEPS,
    "listagg": FunctionTraits(
        roots=frozenset({TypeRoot.VARCHAR}),
        is_unbounded=True,
        counts_repeats=True,
        distinct_option="distinct",
    ),
    "max": _ORDERED_VALUES,
    "merge_map": FunctionTraits(roots=_MAP, accepts_retracts=True),
    "merge_map_with_keytime": FunctionTraits(roots=_MAP, needs_rows=True),
    "min": _ORDERED_VALUES,
    "nested_partial_update": FunctionTraits(roots=_ARRAY, needs_rows=True),
    "nested_update": FunctionTraits(
        roots=_ARRAY,
        needs_rows=True,
        accepts_retracts=True,
        counts_repeats=True,
        distinct_option="nested-key",
    ),
    "primary-key": _KEEPS,
    "product": replace(_SUMS, retracts_by_division=True),
    "rbm32": _UNIONS,
    "rbm64": _UNIONS,
    "sum": _SUMS,
    "theta_sketch": _UNIONS,
}
"""The functions by the value of ``fields.<column>.aggregate-function``."""
