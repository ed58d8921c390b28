"""Defines conditions on rows, typed by a table's columns.

`parser` makes predicates from text. `to_expression` converts a predicate to an Arrow expression
that filters rows. `possible_values` returns the values of a column that can pass, by which readers
prune partitions and buckets.

Values have the representation of `format.binary_row`: a timestamp is nanoseconds, and a DATE is
days since 1970.

Logic has three values, as in SQL: a comparison with null is null, and only true lets a row pass.
"""

from __future__ import annotations

import contextlib
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import takewhile
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stream_app.format.arrow_schema import arrow_scalar, arrow_type
from stream_app.model.schema.data_type import FLOAT_ROOTS, DataField, DataType

_NULL = pa.scalar(None, pa.bool_())
_OPERATORS: dict[str, Callable[[pc.Expression, pc.Expression], pc.Expression]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class Element:
    """The step to an element of an ARRAY or VECTOR, counted from 0; null beyond the end."""

    index: int

    def __str__(self) -> str:
        return str(self.index)


@dataclass(frozen=True, slots=True)
class Entry:
    """The step to a key's value in a MAP; null if the key is missing."""

    key: object
    key_type: DataType

    def __str__(self) -> str:
        return repr(self.key)


Step = str | Element | Entry
"""A step into a column: a name leads to the field of a ROW."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerField(DataField):
    """A value inside a column, by the steps to it; the first step is the column's name."""

    path: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(DataField):
    """A function's result for each value of a column.

    Attributes:
        function: the function's name.
        literals: its arguments after the column.
        compute: converts an array of the column to the result, given the literals.
    """

    function: str
    column: DataField
    literals: tuple[pa.Scalar, ...]
    compute: Callable[..., pa.Array]


@dataclass(frozen=True, slots=True)
class Compare:
    """``column sign value``; the sign is one of ``= <> < <= > >=``."""

    column: DataField
    sign: str
    value: object


@dataclass(frozen=True, slots=True)
class OneOf:
    """``column IN (values)``."""

    column: DataField
    values: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Always:
    """The same truth value for each value of the column; null for null."""

    column: DataField
    is_true: bool


@dataclass(frozen=True, slots=True)
class IsNull:
    """``column IS NULL``."""

    column: DataField


@dataclass(frozen=True, slots=True)
class Matches:
    """The whole text matches a regular expression of RE2."""

    column: DataField
    pattern: str


@dataclass(frozen=True, slots=True)
class Not:
    """``NOT child``."""

    child: Predicate


@dataclass(frozen=True, slots=True)
class And:
    """A condition that is true when all of its children are true."""

    children: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """A condition that is true when at least one of its children is true."""

    children: tuple[Predicate, ...]


Predicate = Compare | OneOf | Always | IsNull | Matches | Not | And | Or


def column_names(predicate: Predicate) -> tuple[str, ...]:
    """Return the columns that a predicate reads, each once, in order of appearance."""
    match predicate:
        case Not(child):
            return column_names(child)
        case And(children) | Or(children):
            return tuple(dict.fromkeys(name for child in children for name in column_names(child)))
        case _:
            column = predicate.column
            column = column.column if isinstance(column, Call) else column
            return (str(_path(column)[0]),)


def _path(column: DataField) -> tuple[Step, ...]:
    """Return the steps to a value; empty for a function's result."""
    if isinstance(column, Call):
        return ()
    return column.path if isinstance(column, InnerField) else (column.name,)


def _values(column: DataField) -> pc.Expression:
    """Return the Arrow expression of a column, a value inside it, or a function's result."""
    if isinstance(column, Call):
        return _function_call(column)
    path = _path(column)
    fields = tuple(takewhile(lambda step: isinstance(step, str), path))
    values = pc.field(*fields)
    for step in path[len(fields) :]:
        match step:
            case Element(index):
                # A slice of fixed size has nulls for missing elements.
                slices = pc.list_slice(values, index, index + 1, return_fixed_size_list=True)
                values = pc.list_element(slices, pc.scalar(0))
            case Entry(key, key_type):
                values = pc.map_lookup(values, arrow_scalar(key, key_type), "first")
            case name:
                values = pc.struct_field(values, name)
    return values


def _function_call(call: Call) -> pc.Expression:
    """Return the call for Arrow, which registers functions by name in this process.

    The name has types but no literals, so that a new condition adds no function.
    """
    types = [arrow_type(call.column.data_type), *(literal.type for literal in call.literals)]
    result = arrow_type(call.data_type)
    name = f"stream_app {call.function}({', '.join(map(str, types))}) {result}"
    compute = call.compute

    def evaluate(_: object, values: pa.Array | pa.Scalar, *literals: pa.Scalar) -> Any:
        if isinstance(values, pa.Scalar):
            return compute(pa.array([values.as_py()], types[0]), *literals)[0]
        return compute(values, *literals)

    if name not in pc.function_registry().list_functions():
        summary = {"summary": call.function, "description": "see predicate_functions"}
        arguments = {
            f"argument {argument_index}": data_type
            for argument_index, data_type in enumerate(types)
        }
        with contextlib.suppress(pa.ArrowKeyError):  # another thread has registered it
            pc.register_scalar_function(evaluate, name, summary, arguments, result)
    return pc.Expression._call(name, [_values(call.column), *map(pc.scalar, call.literals)])


def possible_values(predicate: Predicate, name: str) -> frozenset[object] | None:
    """Return the possible values of a column in passing rows; None for any value."""
    match predicate:
        case And(children):
            values_of_children = [possible_values(child, name) for child in children]
            value_sets = [values for values in values_of_children if values is not None]
            return reduce(frozenset.intersection, value_sets) if value_sets else None
        case Or(children):
            values_of_children = [possible_values(child, name) for child in children]
            value_sets = [values for values in values_of_children if values is not None]
            return (
                reduce(frozenset.union, value_sets)
                if len(value_sets) == len(values_of_children)
                else None
            )
        case Compare(column, "=", value) if _is_plain_column(column, name):
            return frozenset((value,))
        case OneOf(column, values) if _is_plain_column(column, name):
            return frozenset(values)
        case IsNull(column) if _path(column) == (name,):
            return frozenset((None,))
        case Always(column, False) if _path(column) == (name,):
            return frozenset()
        case _:
            return None


def _is_plain_column(column: DataField, name: str) -> bool:
    # Equal floats may differ in their bytes: 0.0 and -0.0.
    return _path(column) == (name,) and column.data_type.root not in FLOAT_ROOTS


def to_expression(predicate: Predicate) -> pc.Expression:
    """Convert the predicate to an Arrow expression, which is true, false or null for each row."""
    match predicate:
        case And(children):
            return reduce(operator.and_, map(to_expression, children))
        case Or(children):
            return reduce(operator.or_, map(to_expression, children))
        case Not(child):
            return ~to_expression(child)
        case _:
            return _test(predicate)


def _test(test: Compare | OneOf | Always | IsNull | Matches) -> pc.Expression:
    field = _values(test.column)
    match test:
        case IsNull():
            return field.is_null()
        case Matches(_, pattern):
            return pc.match_substring_regex(field, pattern)
        case Always(_, is_true):
            return _constant_truth(field, is_true)
        case OneOf(column, values):
            return _one_of(column, values)
        case Compare(column, sign, float(value)) if column.data_type.root in FLOAT_ROOTS:
            return _float_comparison(column, sign, value)
        case Compare(column, sign, value):
            return _OPERATORS[sign](field, pc.scalar(arrow_scalar(value, column.data_type)))


def _constant_truth(field: pc.Expression, is_true: bool) -> pc.Expression:
    null = pc.scalar(_NULL)
    return field.is_valid() | null if is_true else field.is_null() & null


def _one_of(column: DataField, values: Sequence[object]) -> pc.Expression:
    if column.data_type.root in FLOAT_ROOTS:
        return to_expression(Or(tuple(Compare(column, "=", value) for value in values)))
    field = _values(column)
    scalars = [arrow_scalar(value, column.data_type) for value in values]
    members = pa.array(scalars, arrow_type(column.data_type))
    # Arrow's is_in returns false for a null.
    return pc.is_in(field, value_set=members) | _constant_truth(field, False)


def _float_comparison(column: DataField, sign: str, value: float) -> pc.Expression:
    """Return a comparison in which, as in Paimon and Spark, NaN equals NaN and exceeds the rest."""
    field = _values(column)
    if not math.isnan(value):
        comparison = _OPERATORS[sign](field, pc.scalar(arrow_scalar(value, column.data_type)))
        return comparison | pc.is_nan(field) if sign in (">", ">=") else comparison
    match sign:
        case "=" | ">=":
            return pc.is_nan(field)
        case "<>" | "<":
            return ~pc.is_nan(field)
        case _:
            return _constant_truth(field, sign == "<=")
