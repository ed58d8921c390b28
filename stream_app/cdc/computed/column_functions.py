"""The functions of computed columns: argument types, result types and computation.

`made_columns` looks functions up in `COLUMN_FUNCTIONS`, where each has an entry.

Source: Paimon `flink/action/cdc/Expression.java`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import any_of, null_where, valid_of
from stream_app.cdc.columns.column_cast import cast_alone
from stream_app.cdc.columns.column_reading import (
    TIME_FAMILIES,
    ColumnReading,
    Encoding,
    Family,
    JsonKind,
    family_of,
)
from stream_app.cdc.columns.decimal_columns import within_precision
from stream_app.cdc.columns.time_columns import CastResult, cast_isolating
from stream_app.cdc.columns.wire_values import wire_value
from stream_app.cdc.computed import text_functions
from stream_app.cdc.computed.column_definition import Definition, DefinitionError
from stream_app.cdc.computed.date_pattern import parse_pattern
from stream_app.cdc.computed.time_functions import PRECISIONS, date_format, time_field
from stream_app.cdc.computed.variant_functions import variant_get
from stream_app.errors import UsageError
from stream_app.model.near_names import known_names_text
from stream_app.model.schema.data_type import (
    INTEGER_ROOTS,
    STRING,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    DataType,
    TypeRoot,
    parse_data_type,
)
from stream_app.variants.paths import parse_path

Compute = Callable[[pa.Array], CastResult]
"""The column that a function takes [n] → its values, and the mask of its failures, if any.

A function without a column gets the time of decoding, a timestamp in milliseconds of UTC.
"""
ArrowTypeOf = Callable[[DataType], pa.DataType]
_INT_TYPE = DataType(root=TypeRoot.INT)
_MOMENT_TYPE = DataType(root=TypeRoot.TIMESTAMP, precision=3)
_TEMPORAL = INTEGER_ROOTS | STRING_ROOTS | TIMESTAMP_ROOTS | {TypeRoot.DATE}
_COUNT_WORDS = ("none", "one", "two", "three")
_TEMPORAL_WORDS = "a date, a timestamp, a whole number or a text"
WIDTH_MAX = 2**31 - 1
_INT64_MIN = -(2**63)


@dataclass(frozen=True, slots=True)
class AppliedFunction:
    """A function with its arguments.

    Attributes:
        result_type: the type of its values.
        failure_reason: the text that follows a value at which it fails.
    """

    result_type: DataType
    compute: Compute
    failure_reason: str = ""


@dataclass(frozen=True, slots=True)
class Function:
    """A function of computed columns.

    Attributes:
        usage: the call, for messages.
        apply: the type of the column (STRING without one), the other arguments, and what types are
            in Arrow → the function with its arguments. It raises `DefinitionError`.
        reads_column: whether the first argument is a column.
        is_stable: whether a record gives the same value whenever it is read.
    """

    usage: str
    apply: Callable[[DataType, tuple[str, ...], ArrowTypeOf], AppliedFunction]
    reads_column: bool = True
    is_stable: bool = True


def function_of(definition: Definition) -> Function:
    """Return the function that a definition names.

    Raises:
        DefinitionError: no function has that name, or it needs a column and none is given.
    """
    function = COLUMN_FUNCTIONS.get(definition.function)
    if function is None:
        suggestion_text = known_names_text(definition.function, COLUMN_FUNCTIONS)
        raise DefinitionError(
            f"has the unknown function {definition.function!r}; {suggestion_text}"
        )
    if function.reads_column and not (definition.arguments and definition.arguments[0]):
        raise DefinitionError(f"names no column; write {function.usage}")
    return function


def applied_function(
    definition: Definition, argument_type: DataType, arrow_type_of: ArrowTypeOf
) -> AppliedFunction:
    """Return the function of a definition on a column of this type.

    Raises:
        DefinitionError: the function does not accept the column's type, or the other arguments.
    """
    function = function_of(definition)
    literals = definition.arguments[1:] if function.reads_column else definition.arguments
    try:
        return function.apply(argument_type, literals, arrow_type_of)
    except DefinitionError as error:
        raise DefinitionError(f"{error}; write {function.usage}") from None


def _time(
    field: str, argument_type: DataType, literals: tuple[str, ...], _: ArrowTypeOf
) -> AppliedFunction:
    _check_argument_count(literals, 0, 1)
    precision = _precision(argument_type, literals)
    return AppliedFunction(
        _INT_TYPE, partial(time_field, field=field, precision=precision), _no_time_reason(precision)
    )


def _date_format(
    argument_type: DataType, literals: tuple[str, ...], _: ArrowTypeOf
) -> AppliedFunction:
    _check_argument_count(literals, 1, 2)
    precision = _precision(argument_type, literals[1:])
    try:
        parts = parse_pattern(literals[0])
    except ValueError as error:
        raise DefinitionError(f"the pattern {literals[0]!r} {error}") from None
    compute = partial(date_format, parts=parts, precision=precision)
    return AppliedFunction(STRING, compute, _no_time_reason(precision))


def _precision(argument_type: DataType, literals: tuple[str, ...]) -> int | None:
    """Return the precision of the numbers; None for other columns."""
    if argument_type.root not in _TEMPORAL:
        raise DefinitionError(f"takes {_TEMPORAL_WORDS}, not a column of type {argument_type}")
    if not literals:
        return 0 if argument_type.root in INTEGER_ROOTS else None
    precision = literals[0]
    if precision not in map(str, PRECISIONS):
        raise DefinitionError(
            f"the precision must be 0 (seconds), 3 (milliseconds), 6 (microseconds) or 9 "
            f"(nanoseconds), is {precision!r}"
        )
    if argument_type.root not in INTEGER_ROOTS | STRING_ROOTS:
        raise DefinitionError(f"a column of type {argument_type} takes no precision")
    return int(precision)


def _no_time_reason(precision: int | None) -> str:
    if precision is None:
        return "is not a date or time of the years 0000 to 9999"
    units = {0: "seconds", 3: "milliseconds", 6: "microseconds", 9: "nanoseconds"}[precision]
    return f"is, as {units} since 1970, no time of the years 0000 to 9999"


def _substring(
    argument_type: DataType, literals: tuple[str, ...], _: ArrowTypeOf
) -> AppliedFunction:
    _check_argument_count(literals, 1, 2)
    if argument_type.root not in _TEMPORAL:
        raise DefinitionError(f"takes {_TEMPORAL_WORDS}, not a column of type {argument_type}")
    start = _whole_number(literals[0], "the begin", 0)
    end = _whole_number(literals[1], "the end", start + 1) if len(literals) > 1 else None
    compute = partial(
        text_functions.substring, start=start, end=end, precision=argument_type.precision
    )
    return AppliedFunction(
        STRING, compute, f"has fewer than {start if end is None else end} characters"
    )


def _truncate(
    argument_type: DataType, literals: tuple[str, ...], _: ArrowTypeOf
) -> AppliedFunction:
    _check_argument_count(literals, 1, 1)
    width = _whole_number(literals[0], "the width", 1, WIDTH_MAX)
    if argument_type.root in STRING_ROOTS:
        compute: Compute = partial(text_functions.substring, start=0, end=width)
        return AppliedFunction(argument_type, compute, f"has fewer than {width} characters")
    failure_reason = "has no multiple of the width below it in that type"
    if argument_type.root in INTEGER_ROOTS:
        compute = partial(truncate_integers, width=width)
    elif argument_type.root is TypeRoot.DECIMAL:
        compute = partial(truncate_decimals, width=width)
    else:
        raise DefinitionError(
            f"takes a whole number, a decimal or a text, not a column of type {argument_type}"
        )
    return AppliedFunction(argument_type, compute, failure_reason)


def _cast(_: DataType, literals: tuple[str, ...], arrow_type_of: ArrowTypeOf) -> AppliedFunction:
    # The type may have a comma of its own: DECIMAL(10, 2).
    if not literals:
        raise DefinitionError("names no value")
    value, type_text = literals[0], ", ".join(literals[1:])
    result_type = _written_type(type_text)
    constant = _constant(value, result_type, arrow_type_of(result_type))
    return AppliedFunction(result_type, partial(_repeat, constant=constant))


def _constant(value: str, data_type: DataType, arrow_type: pa.DataType) -> pa.Array:
    reading = _reading(data_type, arrow_type)
    text = value.lower() if reading.family is Family.BOOLEAN else value
    try:
        json_kind, parsed_value = wire_value(reading, JsonKind.STRING, text)
        constant, has_failed = cast_alone(reading, json_kind, [parsed_value])
        if has_failed is None:
            return constant
    except ValueError:
        pass
    raise DefinitionError(f"{value!r} is not a value of the type {data_type}")


def _reading(data_type: DataType, arrow_type: pa.DataType) -> ColumnReading:
    """Return the way to read texts of values of a type."""
    is_time = family_of(data_type) in TIME_FAMILIES
    return ColumnReading(
        name="",
        data_type=data_type,
        arrow_type=arrow_type,
        encoding=Encoding.ISO if is_time else Encoding.TEXT,
        scale=data_type.scale,
        is_required=False,
        is_key=False,
    )


def _repeat(moments: pa.Array, constant: pa.Array) -> CastResult:
    return pa.repeat(constant[0], len(moments)), None


def _now(_: DataType, literals: tuple[str, ...], __: ArrowTypeOf) -> AppliedFunction:
    if literals:
        raise DefinitionError("takes no argument")
    return AppliedFunction(_MOMENT_TYPE, _identity)


def _identity(moments: pa.Array) -> CastResult:
    return moments, None


def _case(
    convert: Compute, argument_type: DataType, literals: tuple[str, ...], _: ArrowTypeOf
) -> AppliedFunction:
    _check_argument_count(literals, 0, 0)
    if argument_type.root not in STRING_ROOTS:
        raise DefinitionError(f"takes a text, not a column of type {argument_type}")
    return AppliedFunction(STRING, convert)


def _variant_get(
    argument_type: DataType, literals: tuple[str, ...], arrow_type_of: ArrowTypeOf
) -> AppliedFunction:
    """Return the application of `variant_get` to a column.

    Raises:
        DefinitionError: the column or the literals do not fit.
    """
    if argument_type.root is not TypeRoot.VARIANT or not literals:
        raise DefinitionError(f"takes a VARIANT and a path, not a column of type {argument_type}")
    # The type may have a comma of its own: DECIMAL(10, 2).
    result_type = _written_type(", ".join(literals[1:]))
    if result_type.is_nested:
        raise DefinitionError(f"gives no {result_type}")
    try:
        path = parse_path(literals[0])
    except ValueError as error:
        raise DefinitionError(str(error)) from None
    compute = partial(
        variant_get, path=path, reading=_reading(result_type, arrow_type_of(result_type))
    )
    return AppliedFunction(
        result_type, compute, f"has at {literals[0]} no value of the type {result_type}"
    )


def _written_type(text: str) -> DataType:
    try:
        return parse_data_type(text) if text else STRING
    except UsageError as error:
        raise DefinitionError(error.problem) from None


def _check_argument_count(literals: tuple[str, ...], minimum: int, maximum: int) -> None:
    if not minimum <= len(literals) <= maximum:
        words = ("no argument", "one argument", "two arguments")
        count_text = words[minimum]
        if maximum > minimum:
            count_text += f" or {_COUNT_WORDS[maximum]}"
        count = len(literals)
        actual_text = _COUNT_WORDS[count] if count < len(_COUNT_WORDS) else str(count)
        raise DefinitionError(f"takes {count_text} besides the column, has {actual_text}")


def _whole_number(text: str, subject: str, minimum: int, maximum: int | None = None) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", text):
        raise DefinitionError(f"{subject} must be a whole number, is {text!r}")
    value = int(text)
    if value < minimum or (maximum is not None and value > maximum):
        upper_bound = "" if maximum is None else f" and at most {maximum}"
        raise DefinitionError(f"{subject} must be at least {minimum}{upper_bound}, is {value}")
    return value


COLUMN_FUNCTIONS: Mapping[str, Function] = {
    **{
        name: Function(f"{name}(COLUMN) or {name}(COLUMN, PRECISION)", partial(_time, name))
        for name in ("year", "month", "day", "hour", "minute", "second")
    },
    "date_format": Function(
        "date_format(COLUMN, PATTERN) or date_format(COLUMN, PATTERN, PRECISION)", _date_format
    ),
    "substring": Function("substring(COLUMN, BEGIN) or substring(COLUMN, BEGIN, END)", _substring),
    "truncate": Function("truncate(COLUMN, WIDTH)", _truncate),
    "cast": Function("cast(VALUE, TYPE) or cast(VALUE)", _cast, reads_column=False),
    "now": Function("now()", _now, reads_column=False, is_stable=False),
    "upper": Function("upper(COLUMN)", partial(_case, text_functions.upper)),
    "lower": Function("lower(COLUMN)", partial(_case, text_functions.lower)),
    "trim": Function("trim(COLUMN)", partial(_case, text_functions.trim)),
    "variant_get": Function(
        "variant_get(COLUMN, PATH) or variant_get(COLUMN, PATH, TYPE)", _variant_get
    ),
}


def truncate_integers(values: pa.Array, width: int) -> CastResult:
    """Compute ``v - floormod(v, width)``; it fails where the result does not fit the type."""
    filled_values = pc.fill_null(values, 0).cast(pa.int64()).to_numpy()
    remainder = np.mod(filled_values, width)
    fits = valid_of(values) & (filled_values >= _INT64_MIN + remainder)
    truncated_values = pa.array(np.where(fits, filled_values, remainder) - remainder)
    integers = cast_isolating(null_where(truncated_values, ~fits), values.type)
    return integers, any_of(valid_of(values) & ~valid_of(integers))


def truncate_decimals(values: pa.Array, width: int) -> CastResult:
    """Truncate unscaled numbers [n] as `truncate_integers` does: 12.34 by 10 gives 12.30.

    An unscaled number is ``high * 2^64 + low``. The width is below 2^31, so all remainders and
    their products fit into 64 bits. Four values of DECIMAL(6, 2) by 10::

        values      [12.34, -12.34, 0.10, null]
        unscaled    [1234,  -1234,  10,   -]
        remainder   [4,     6,      0,    -]
                    [12.30, -12.40, 0.10, null]
    """
    if not len(values):
        return values, None
    words = np.frombuffer(values.buffers()[1], "<i8").reshape(-1, 2)
    words = words[values.offset : values.offset + len(values)]
    low, high = np.ascontiguousarray(words[:, 0]).view(np.uint64), words[:, 1]
    shift = np.int64(2**64 % width)
    remainder = np.mod(high, width) * shift % width + (low % np.uint64(width)).astype(np.int64)
    remainder = np.mod(remainder, width).astype(np.uint64)
    result_words = np.empty((len(values), 2), np.int64)
    result_words[:, 0] = (low - remainder).view(np.int64)  # without a sign, it wraps around
    result_words[:, 1] = high - (low < remainder)
    truncated_values = pa.Array.from_buffers(
        values.type, len(values), [None, pa.py_buffer(result_words.tobytes())]
    )
    return within_precision(null_where(truncated_values, ~valid_of(values)))
