"""Declares the options of every JSON format, and checks a format's options.

Each format declares further options of its own. A format calls it once, when it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from stream_app.cdc.column_drift import (
    COLUMN_ALIASES,
    CUT_REACTIONS,
    CUT_VALUES,
    INEXACT,
    JSON_AS,
    NARROWED_COLUMNS,
    NARROWED_REACTIONS,
    TYPE_MAPPING,
    ColumnPolicy,
    DriftReaction,
    alias_problems,
    parse_aliases,
)
from stream_app.cdc.columns.column_reading import (
    ENCODINGS,
    ColumnReading,
    Encoding,
    Family,
    family_of,
)
from stream_app.cdc.message_format import FormatSetup
from stream_app.errors import UsageError
from stream_app.model.near_names import did_you_mean
from stream_app.model.options.option import TEXT, Option, OptionKind, choice
from stream_app.model.schema.data_type import DataType, RowType
from stream_app.model.source.mapping_options import InexactTimes, JsonColumns, parse_mapping_options

TRUNCATE_KEY = "truncate"
UNKNOWN_COLUMNS = "unknown-columns"
MISSING_COLUMNS = "missing-columns"
COLUMN_ENCODING = "column.NAME.encoding"


class OnTruncate(Enum):
    """The effect of a TRUNCATE of the source."""

    ERROR = "error"
    IGNORE = "ignore"
    APPLY = "apply"


def _column_names(text: str) -> frozenset[str]:
    names = frozenset(name.strip() for name in text.split(",")) - {""}
    if not names:
        raise ValueError("names no column")
    return names


COLUMN_NAMES = OptionKind("names", _column_names)
TRUNCATE_OPTION = choice(
    TRUNCATE_KEY,
    "Effect of a TRUNCATE of the source: it stops the job (in a job of many tables: it holds its "
    "table back); or nothing happens; or the table is emptied "
    "([change messages](setup/cdc.md#truncate)).",
    tuple(effect.value for effect in OnTruncate),
)
SOURCE_COLUMN_OPTIONS = (
    choice(
        UNKNOWN_COLUMNS,
        "Effect of a column that the table does not have: the job stores the record without it, "
        "with a warning or without one; it stops; the record is bad; or the table gets the column "
        "([schemas](setup/schemas.md)).",
        tuple(reaction.value for reaction in DriftReaction),
    ),
    choice(
        MISSING_COLUMNS,
        "Effect of a column of the table that a message lacks: the job stores null, with a warning "
        "or without one; it stops; or the record is bad.",
        tuple(reaction.value for reaction in DriftReaction if reaction is not DriftReaction.EVOLVE),
    ),
    choice(
        NARROWED_COLUMNS,
        "Effect of a type in the source that the column cannot follow, where unknown-columns = "
        "evolve: the column keeps its type, with a warning or without one; the job stops; or "
        "records of later changes are bad ([schemas](setup/schemas.md#narrowed-columns)).",
        NARROWED_REACTIONS,
    ),
    choice(
        CUT_VALUES,
        "Effect of a time with digits of a second that its column cannot hold, which are cut off: "
        "a warning, or none, or the record is bad "
        "([change messages](setup/cdc.md#times-that-are-cut)).",
        CUT_REACTIONS,
    ),
    Option(
        COLUMN_ALIASES,
        TEXT,
        "",
        "Columns that the source has renamed: `NAME=COLUMN`, comma separated. A value under the "
        "name goes into the table's column, beside values under the column's own name.",
    ),
    Option(
        TYPE_MAPPING,
        TEXT,
        "",
        "Paimon's options of the types of columns that the table gets, where unknown-columns = "
        "evolve; comma separated ([schemas](setup/schemas.md)).",
    ),
    choice(
        INEXACT,
        "Type of columns for times of day with more than milliseconds, which Paimon's TIME cannot "
        "hold: BIGINT, as the source counts; STRING; or TIME, which cuts digits off "
        "([schemas](setup/schemas.md#types-that-paimon-cannot-hold)).",
        tuple(kind.value for kind in InexactTimes),
    ),
    choice(
        JSON_AS,
        "Type of columns for documents, such as PostgreSQL's jsonb: STRING, or VARIANT "
        "([schemas](setup/schemas.md#variant)).",
        tuple(kind.value for kind in JsonColumns),
    ),
)
ENCODING_OPTION = choice(
    COLUMN_ENCODING,
    "How the source writes one column, with priority over the format's own way. The column's "
    "type limits the choice.",
    tuple(sorted({encoding.value for family in ENCODINGS.values() for encoding in family})),
)

_COLUMN_PREFIX, _COLUMN_SUFFIX = COLUMN_ENCODING.split("NAME")


@dataclass(frozen=True, slots=True)
class CheckedOptions:
    """The options of a table's format, checked.

    Attributes:
        values: the values of every option that the format declares.
        encodings: ``column.NAME.encoding`` by column name.
    """

    values: Mapping[str, Any]
    encodings: Mapping[str, Encoding]

    @property
    def on_truncate(self) -> OnTruncate:
        """The effect of a TRUNCATE of the source."""
        return OnTruncate(self.values.get(TRUNCATE_KEY, OnTruncate.ERROR.value))

    def column_policy(self, columns: RowType) -> ColumnPolicy:
        """Return the policy for records with other columns than these."""
        return ColumnPolicy(
            columns=frozenset(columns.names),
            unknown_reaction=DriftReaction(self.values[UNKNOWN_COLUMNS]),
            missing_reaction=DriftReaction(self.values[MISSING_COLUMNS]),
            cut_reaction=DriftReaction(self.values[CUT_VALUES]),
        )


def parse_format_options(
    name: str,
    section: str,
    format_options: tuple[Option[Any], ...],
    options: Mapping[str, str],
    columns: RowType,
) -> CheckedOptions:
    """Parse and check the options of a table's format.

    Args:
        name, section, format_options: the format's `FormatDeclaration.name`, `section`, `options`.

    Raises:
        UsageError: lists all problems, with the nearest known spelling of unknown names.
    """
    option_by_key = {option.key: option for option in format_options}
    values = {key: option.default for key, option in option_by_key.items()}
    problems: list[str] = []
    encodings: dict[str, Encoding] = {}
    for key, text in options.items():
        if key in option_by_key and key != COLUMN_ENCODING:
            try:
                values[key] = option_by_key[key].value_of(text)
                problems += _list_problems(key, text, columns)
            except ValueError as error:
                problems.append(f"{key} = {text!r} {error}")
        elif COLUMN_ENCODING in option_by_key and (column := _encoded_column(key)) is not None:
            problem = _encoding_problem(column, text, columns)
            if problem:
                problems.append(f"{key}: {problem}")
            else:
                encodings[column] = Encoding(text)
        else:
            problems.append(f"unknown option {key!r}{did_you_mean(key, option_by_key, ',')}")
    if problems:
        raise UsageError(
            f"options of {name} are wrong: " + "; ".join(problems),
            where=f"source.{section}",
            fix=f"known options: {', '.join(option_by_key)}",
        )
    return CheckedOptions(values, encodings)


def column_readings(
    setup: FormatSetup,
    encodings: Mapping[str, Encoding],
    default_encoding_of: Callable[[DataType], Encoding],
) -> tuple[ColumnReading, ...]:
    """Return the reading of each column of a table, for messages without a schema.

    Args:
        encodings: the encodings of single columns, by name.
        default_encoding_of: returns the encoding of another column, by its type.
    """
    return tuple(
        ColumnReading(
            name=column.name,
            data_type=column.data_type,
            arrow_type=setup.arrow_schema.field(column.name).type,
            encoding=encodings.get(column.name) or default_encoding_of(column.data_type),
            scale=column.data_type.scale,
            is_required=not column.data_type.nullable or column.name in setup.primary_keys,
            is_key=column.name in setup.primary_keys,
            is_nullable_key=column.name in setup.primary_keys and setup.traits.accepts_null_keys,
        )
        for column in setup.columns
    )


def texts_and_numbers(data_type: DataType, binary: Encoding) -> Encoding:
    """Return the encoding of a source that writes plain numbers, and times as ISO 8601 text."""
    match family_of(data_type):
        case Family.STRING | Family.NESTED | Family.VARIANT:
            return Encoding.TEXT
        case Family.BINARY:
            return binary
        case Family.DATE | Family.TIME | Family.TIMESTAMP:
            return Encoding.ISO
        case _:
            return Encoding.NUMBER


def _list_problems(key: str, text: str, columns: RowType) -> list[str]:
    try:
        if key == TYPE_MAPPING:
            parse_mapping_options(text.split(","))
        problems = alias_problems(parse_aliases(text), columns) if key == COLUMN_ALIASES else []
    except UsageError as error:
        return [f"{error.problem} ({error.fix})"]
    return [f"{key}: {problem}" for problem in problems]


def _encoded_column(key: str) -> str | None:
    if key.startswith(_COLUMN_PREFIX) and key.endswith(_COLUMN_SUFFIX):
        return key[len(_COLUMN_PREFIX) : -len(_COLUMN_SUFFIX)]
    return None


def _encoding_problem(column: str, text: str, columns: RowType) -> str:
    if column not in columns.names:
        return f"the table has no column {column!r}{did_you_mean(column, columns.names, ',')}"
    data_type = columns.field(column).data_type
    allowed_encodings = sorted(encoding.value for encoding in ENCODINGS[family_of(data_type)])
    if text in allowed_encodings:
        return ""
    return (
        f"a column of type {data_type} is encoded as one of {', '.join(allowed_encodings)}, "
        f"not {text!r}"
    )
