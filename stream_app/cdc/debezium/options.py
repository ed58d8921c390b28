"""Options of the format ``debezium-json``, and the encodings that follow from them.

They repeat what the connector was configured with, because messages without the schema envelope
do not say it. Called once, when the format is made.

Source: Debezium's connector properties `decimal.handling.mode`, `time.precision.mode` and
`binary.handling.mode`, with their defaults.
"""

from __future__ import annotations

from collections.abc import Mapping

from stream_app.cdc.alike.options import (
    COLUMN_OPTIONS,
    ENCODING_OPTION,
    TRUNCATE_OPTION,
    UNKNOWN_COLUMNS,
    CheckedOptions,
    checked_options,
)
from stream_app.cdc.change_batch import TableTraits
from stream_app.cdc.column_drift import INEXACT, Reaction
from stream_app.cdc.columns.column_reading import Encoding, Family, family_of
from stream_app.cdc.debezium.key_proof import KeyRules, ReplicaIdentity
from stream_app.cdc.debezium.placeholders import (
    PLACEHOLDER,
    Placeholder,
    is_placeholder,
    placeholder_of,
)
from stream_app.cdc.message_format import FormatOption
from stream_app.cdc.source_types.remarks import REPLACES_NULLS
from stream_app.errors import UsageError
from stream_app.model.schema.data_type import DataType, RowType
from stream_app.model.schema.mapping_options import Inexact

SECTION = "debezium"
DECIMAL_MODE = "decimal.handling.mode"
TIME_MODE = "time.precision.mode"
BINARY_MODE = "binary.handling.mode"
REPLICA_IDENTITY = "replica-identity"
UNPROVEN_KEYS = "unproven-keys"
SOURCE_KEY = "source-key"
UNCHANGED_VALUES = "unchanged-values"
PLACEHOLDER_VALUE = "unavailable.value.placeholder"

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
        "How the connector writes bytes; also for messages with a schema, which does not tell it.",
        ("bytes", "base64", "base64-url-safe", "hex"),
    ),
    TRUNCATE_OPTION,
    *COLUMN_OPTIONS,
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
        UNCHANGED_VALUES,
        "Effect of an update without a before-image that leaves an unchanged value out (TOAST): "
        "the value is looked up in the table, or the record is bad.",
        ("lookup", "quarantine"),
    ),
    FormatOption(
        REPLACES_NULLS,
        "Whether the connector's converter writes a column's DEFAULT in place of null; the job "
        "names the columns that may have lost nulls so.",
        ("true", "false"),
    ),
    FormatOption(
        PLACEHOLDER_VALUE,
        "The connector's stand-in for an unchanged value; behind `hex:` its bytes.",
        example=PLACEHOLDER,
    ),
    ENCODING_OPTION,
)

_OLDER_VALUES = {(UNKNOWN_COLUMNS, "strict"): Reaction.QUARANTINE.value}
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


class DebeziumOptions(CheckedOptions):
    """The checked options."""

    @property
    def source_key(self) -> frozenset[str] | None:
        """Columns of the source's key; None: the messages' keys tell."""
        return self.names.get(SOURCE_KEY)

    @property
    def identity(self) -> ReplicaIdentity:
        """What before-images hold."""
        return ReplicaIdentity(self.modes[REPLICA_IDENTITY])

    @property
    def looks_up(self) -> bool:
        """Whether values that an update leaves out are looked up in the table."""
        return self.modes[UNCHANGED_VALUES] == "lookup"

    @property
    def sends_bytes(self) -> bool:
        """Whether the connector sends bytes as bytes; else as text of some encoding."""
        return self.modes[BINARY_MODE] == "bytes"

    @property
    def writes_times(self) -> bool:
        """Whether a STRING column gets times of day as people write them; else their counts."""
        return self.modes.get(INEXACT) == Inexact.STRING.value

    @property
    def placeholder(self) -> Placeholder:
        """What stands for an unchanged value."""
        return placeholder_of(self.texts.get(PLACEHOLDER_VALUE, PLACEHOLDER))

    @property
    def quarantines_unproven(self) -> bool:
        """Whether a change whose row is not certain becomes a bad record; else it stops the job."""
        return self.modes[UNPROVEN_KEYS] == "quarantine"


def parse_options(
    options: Mapping[str, str],
    columns: RowType,
    name: str = "debezium-json",
    declared: tuple[FormatOption, ...] = OPTIONS,
) -> DebeziumOptions:
    """Check the options of a table's format.

    Args:
        name, declared: of the format.

    Raises:
        UsageError: lists everything that is wrong, with the nearest known spelling.
    """
    given = {key: _OLDER_VALUES.get((key, value), value) for key, value in options.items()}
    found = checked_options(name, SECTION, declared, given, columns)
    placeholder = found.texts.get(PLACEHOLDER_VALUE)
    if placeholder is not None and not is_placeholder(placeholder):
        raise UsageError(
            f"{PLACEHOLDER_VALUE} = {placeholder!r} is no placeholder",
            where=f"source.{SECTION}",
            fix="take the connector's value, at least one character; behind `hex:` an even number "
            "of hexadecimal digits",
        )
    return DebeziumOptions(found.modes, found.names, found.encodings, found.texts)


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


def keeps_nulls(options: Mapping[str, str]) -> bool:
    """Whether the options promise that a null comes as null."""
    return options.get(REPLACES_NULLS) == "false"


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
