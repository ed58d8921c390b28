"""Options of the format ``debezium-json``, and the encodings that follow from them.

They repeat what the connector was configured with, because messages without the schema envelope
do not say it. Called once, when the format is made.

Source: Debezium's connector properties `decimal.handling.mode`, `time.precision.mode` and
`binary.handling.mode`, with their defaults.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from stream_app.cdc.aliased_decode import alias_problems, parse_aliases
from stream_app.cdc.change_batch import TableTraits
from stream_app.cdc.column_drift import (
    COLUMN_ALIASES,
    NARROWED_COLUMNS,
    TYPE_MAPPING,
    ColumnPolicy,
    Reaction,
)
from stream_app.cdc.columns.column_reading import (
    ENCODINGS,
    ColumnReading,
    Encoding,
    Family,
    family_of,
)
from stream_app.cdc.debezium.key_proof import KeyRules, ReplicaIdentity
from stream_app.cdc.message_format import FormatOption
from stream_app.errors import UsageError
from stream_app.model.schema.data_type import DataType, RowType
from stream_app.model.schema.mapping_options import parse_mapping_options

DECIMAL_MODE = "decimal.handling.mode"
TIME_MODE = "time.precision.mode"
BINARY_MODE = "binary.handling.mode"
TRUNCATE = "truncate"
UNKNOWN_COLUMNS = "unknown-columns"
MISSING_COLUMNS = "missing-columns"
REPLICA_IDENTITY = "replica-identity"
UNPROVEN_KEYS = "unproven-keys"
SOURCE_KEY = "source-key"
COLUMN_ENCODING = "column.NAME.encoding"

OPTIONS: tuple[FormatOption, ...] = (
    FormatOption(
        DECIMAL_MODE,
        "How the connector writes DECIMAL and NUMERIC.",
        ("precise", "string", "double"),
    ),
    FormatOption(
        TIME_MODE,
        "How the connector writes dates and times.",
        (
            "adaptive",
            "adaptive_time_microseconds",
            "connect",
            "isostring",
            "microseconds",
            "nanoseconds",
        ),
    ),
    FormatOption(
        BINARY_MODE,
        "How the connector writes bytes.",
        ("bytes", "base64", "base64-url-safe", "hex"),
    ),
    FormatOption(
        TRUNCATE,
        "Effect of a TRUNCATE of the source: it stops the job, or nothing happens.",
        ("error", "ignore"),
    ),
    FormatOption(
        UNKNOWN_COLUMNS,
        "Effect of a column that the table does not have: the job stores the record without it, "
        "with a warning or without one; it stops; the record is bad; or the table gets the column "
        "([schemas.md](schemas.md)).",
        tuple(reaction.value for reaction in Reaction),
    ),
    FormatOption(
        MISSING_COLUMNS,
        "Effect of a missing column of the table: the same, except that nothing is dropped.",
        tuple(reaction.value for reaction in Reaction if reaction is not Reaction.EVOLVE),
    ),
    FormatOption(
        NARROWED_COLUMNS,
        "Effect of a type in the source that the column cannot follow, where unknown-columns = "
        "evolve: the column keeps its type, with a warning or without one; or the job stops.",
        ("warn", "ignore", "stop"),
    ),
    FormatOption(
        COLUMN_ALIASES,
        "Columns that the source has renamed: `NAME=COLUMN`, comma separated. A value under the "
        "name goes into the table's column, beside values under the column's own name.",
    ),
    FormatOption(
        TYPE_MAPPING,
        "Paimon's options of the types of columns that the table gets, where unknown-columns = "
        "evolve; comma separated ([schemas.md](schemas.md)).",
    ),
    FormatOption(
        REPLICA_IDENTITY,
        "Contents of before-images: what each message proves (`auto`), the whole row (`full`), "
        "or only the source's key (`default`, PostgreSQL's own).",
        tuple(identity.value for identity in ReplicaIdentity),
    ),
    FormatOption(
        UNPROVEN_KEYS,
        "Effect of an update or a delete whose row is not certain: it stops the job, or is a bad "
        "record.",
        ("stop", "quarantine"),
    ),
    FormatOption(
        SOURCE_KEY,
        "Columns of the source's key, comma separated; absent: those of the Kafka keys.",
    ),
    FormatOption(
        COLUMN_ENCODING,
        "How the connector writes one column, with priority over the modes. The column's type "
        "limits the choice.",
        tuple(sorted({each.value for family in ENCODINGS.values() for each in family})),
    ),
)
_KEYS = tuple(option.key for option in OPTIONS)
_CHOICES = {
    option.key: option.values
    for option in OPTIONS
    if option.key not in (SOURCE_KEY, COLUMN_ENCODING, TYPE_MAPPING, COLUMN_ALIASES)
}

_OLDER_VALUES = {(UNKNOWN_COLUMNS, "strict"): Reaction.QUARANTINE.value}
_COLUMN_PREFIX, _COLUMN_SUFFIX = COLUMN_ENCODING.split("NAME")
_BINARY = {
    "bytes": Encoding.BASE64,
    "base64": Encoding.BASE64,
    "base64-url-safe": Encoding.BASE64_URL_SAFE,
    "hex": Encoding.HEX,
}
_FIXED_TIME = {
    "connect": Encoding.EPOCH_MILLIS,
    "isostring": Encoding.ISO,
    "microseconds": Encoding.EPOCH_MICROS,
    "nanoseconds": Encoding.EPOCH_NANOS,
}


@dataclass(frozen=True, slots=True)
class DebeziumOptions:
    """The checked options.

    Attributes:
        modes: every option of a fixed choice with its value.
        encodings: ``column.NAME.encoding`` by column name.
        source_key: columns of the source's key; None: the messages' keys tell.
    """

    modes: Mapping[str, str]
    encodings: Mapping[str, Encoding]
    source_key: frozenset[str] | None = None

    @property
    def ignores_truncate(self) -> bool:
        """Whether a TRUNCATE is skipped; else it stops the job."""
        return self.modes[TRUNCATE] == "ignore"

    def column_policy(self, columns: RowType) -> ColumnPolicy:
        """What becomes of records that have other columns than these."""
        return ColumnPolicy(
            columns=frozenset(columns.names),
            unknown=Reaction(self.modes[UNKNOWN_COLUMNS]),
            missing=Reaction(self.modes[MISSING_COLUMNS]),
        )

    @property
    def identity(self) -> ReplicaIdentity:
        """What before-images hold."""
        return ReplicaIdentity(self.modes[REPLICA_IDENTITY])

    @property
    def sets_unproven_aside(self) -> bool:
        """Whether a change whose row is not certain becomes a bad record; else it stops the job."""
        return self.modes[UNPROVEN_KEYS] == "quarantine"


def parse_options(options: Mapping[str, str], columns: RowType) -> DebeziumOptions:
    """Check the options of a table's format.

    Raises:
        UsageError: lists everything that is wrong, with the nearest known spelling.
    """
    problems: list[str] = []
    modes = {key: values[0] for key, values in _CHOICES.items()}
    encodings: dict[str, Encoding] = {}
    source_key: frozenset[str] | None = None
    for key, given in options.items():
        value = _OLDER_VALUES.get((key, given), given)
        if key in _CHOICES:
            problems += _choice_problems(key, value)
            modes[key] = value
        elif key in (TYPE_MAPPING, COLUMN_ALIASES):
            problems += _list_problems(key, value, columns)
        elif key == SOURCE_KEY:
            source_key = frozenset(name.strip() for name in value.split(",")) - {""}
            if not source_key:
                problems.append(f"{key} names no column")
        elif key.startswith(_COLUMN_PREFIX) and key.endswith(_COLUMN_SUFFIX):
            name = key[len(_COLUMN_PREFIX) : -len(_COLUMN_SUFFIX)]
            problem = _encoding_problem(name, value, columns)
            if problem:
                problems.append(f"{key}: {problem}")
            else:
                encodings[name] = Encoding(value)
        else:
            problems.append(f"unknown option {key!r}{_near(key, _KEYS)}")
    if problems:
        raise UsageError(
            "options of debezium-json are wrong: " + "; ".join(problems),
            where="source.debezium",
            fix=f"known options: {', '.join(_KEYS)}",
        )
    return DebeziumOptions(modes, encodings, source_key)


def key_rules(
    options: DebeziumOptions, primary_keys: tuple[str, ...], traits: TableTraits
) -> KeyRules:
    """The rules of a table; where old rows stay anyway, no message has to prove its row."""
    return KeyRules(
        identity=options.identity,
        primary_key=frozenset(() if traits.ignores_deletes else primary_keys),
        sequence_fields=frozenset(traits.sequence_fields),
        source_key=options.source_key,
    )


def has_whole_before(options: Mapping[str, str]) -> bool:
    """Whether the options promise that every before-image is whole."""
    return options.get(REPLICA_IDENTITY) == ReplicaIdentity.FULL.value


def _choice_problems(key: str, value: str) -> list[str]:
    known = _CHOICES[key]
    return [] if value in known else [f"{key} = {value!r} is none of {', '.join(known)}"]


def _list_problems(key: str, value: str, columns: RowType) -> list[str]:
    try:
        if key == TYPE_MAPPING:
            parse_mapping_options(value.split(","))
            return []
        problems = alias_problems(parse_aliases(value), columns)
    except UsageError as error:
        return [f"{error.what} ({error.fix})"]
    return [f"{key}: {problem}" for problem in problems]


def _encoding_problem(name: str, value: str, columns: RowType) -> str:
    if name not in columns.names:
        return f"the table has no column {name!r}{_near(name, columns.names)}"
    data_type = columns.field(name).data_type
    allowed = sorted(encoding.value for encoding in ENCODINGS[family_of(data_type)])
    if value in allowed:
        return ""
    return f"a column of type {data_type} is encoded as one of {', '.join(allowed)}, not {value!r}"


def _near(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f", did you mean {near[0]!r}?" if near else ""


def column_readings(
    columns: RowType,
    arrow_schema: pa.Schema,
    primary_keys: tuple[str, ...],
    options: DebeziumOptions,
) -> tuple[ColumnReading, ...]:
    """How each column is read from messages that do not bring their schema."""
    return tuple(
        ColumnReading(
            name=column.name,
            data_type=column.data_type,
            arrow_type=arrow_schema.field(column.name).type,
            encoding=options.encodings.get(
                column.name, default_encoding(column.data_type, options.modes)
            ),
            scale=column.data_type.scale,
            required=not column.data_type.nullable or column.name in primary_keys,
            is_key=column.name in primary_keys,
        )
        for column in columns
    )


def default_encoding(data_type: DataType, modes: Mapping[str, str]) -> Encoding:
    """The encoding that a connector of these modes gives a column of this type."""
    match family_of(data_type):
        case Family.STRING:
            return Encoding.TEXT
        case Family.BINARY:
            return _BINARY[modes[BINARY_MODE]]
        case Family.DECIMAL:
            return {
                "precise": Encoding.BASE64,
                "string": Encoding.TEXT,
                "double": Encoding.NUMBER,
            }[modes[DECIMAL_MODE]]
        case Family.DATE:
            iso = modes[TIME_MODE] == "isostring"
            return Encoding.ISO if iso else Encoding.EPOCH_DAYS
        case Family.TIME | Family.TIMESTAMP as family:
            return _time_encoding(family, data_type, modes[TIME_MODE])
        case _:
            return Encoding.NUMBER


def _time_encoding(family: Family, data_type: DataType, mode: str) -> Encoding:
    if mode in _FIXED_TIME:
        return _FIXED_TIME[mode]
    if mode == "adaptive_time_microseconds" and family is Family.TIME:
        return Encoding.EPOCH_MICROS
    if data_type.precision <= 3:
        return Encoding.EPOCH_MILLIS
    return Encoding.EPOCH_MICROS if data_type.precision <= 6 else Encoding.EPOCH_NANOS
