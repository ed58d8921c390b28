"""The aggregate functions of columns, and which types they take.

How a function computes stands in `mergetree.merge_engines.aggregates`.

Source: Paimon 1.4 `mergetree/compact/aggregate/factory/*.java`, `utils/InternalRowUtils.java`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stream_app.model.schema.data_type import (
    FLOAT_ROOTS,
    INTEGER_ROOTS,
    STRING_MAX,
    DataType,
    TypeRoot,
)

_ALL = frozenset(TypeRoot)
_NUMBERS = INTEGER_ROOTS | FLOAT_ROOTS | {TypeRoot.DECIMAL}


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionTraits:
    """Facts of one aggregate function.

    Attributes:
        roots: types of columns that it takes.
        unbounded: of texts it takes STRING alone, because its results grow.
        takes_back: it can undo a row of kind -U or -D.
    """

    roots: frozenset[TypeRoot] = _ALL
    unbounded: bool = False
    takes_back: bool = False

    def takes(self, kind: DataType) -> bool:
        """Whether a column of this type can be aggregated so."""
        return kind.root in self.roots and (not self.unbounded or kind.length == STRING_MAX)


_KEEPS = FunctionTraits(takes_back=True)
_FIRST = FunctionTraits()
_ORDERED = FunctionTraits(roots=_ALL - {TypeRoot.BOOLEAN})
_TRUTHS = FunctionTraits(roots=frozenset({TypeRoot.BOOLEAN}))
_UNIONS = FunctionTraits(roots=frozenset({TypeRoot.VARBINARY}))
_SUMS = FunctionTraits(roots=_NUMBERS, takes_back=True)

AGGREGATE_FUNCTIONS: Mapping[str, FunctionTraits] = {
    "bool_and": _TRUTHS,
    "bool_or": _TRUTHS,
    "first_non_null_value": _FIRST,
    "first_not_null_value": _FIRST,
    "first_value": _FIRST,
    "hll_sketch": _UNIONS,
    "last_non_null_value": _KEEPS,
    "last_value": _KEEPS,
    "listagg": FunctionTraits(roots=frozenset({TypeRoot.VARCHAR}), unbounded=True),
    "max": _ORDERED,
    "min": _ORDERED,
    "primary-key": _KEEPS,
    "product": _SUMS,
    "rbm32": _UNIONS,
    "rbm64": _UNIONS,
    "sum": _SUMS,
    "theta_sketch": _UNIONS,
}
"""By the value of ``fields.<column>.aggregate-function``."""

FOREIGN_FUNCTIONS: Mapping[str, str] = {
    name: "works on nested columns, which stream_app does not store"
    for name in (
        "collect",
        "merge_map",
        "merge_map_with_keytime",
        "nested_partial_update",
        "nested_update",
    )
}
"""Functions that Paimon has and stream_app has not, and why."""
