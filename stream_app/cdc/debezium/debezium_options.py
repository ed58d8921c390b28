"""Options of the format ``debezium-json``, and the encodings that follow from them.

The options repeat the connector's configuration, which messages without the schema envelope do not
contain. A format calls `parse_options` once, when it is made.

Source: Debezium's connector properties `decimal.handling.mode`, `time.precision.mode` and
`binary.handling.mode`, with their defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stream_app.cdc.change_batch import TableTraits
from stream_app.cdc.column_drift import INEXACT, DriftReaction
from stream_app.cdc.columns.column_reading import Encoding, Family, family_of
from stream_app.cdc.debezium.key_proof import KeyRules, ReplicaIdentity
from stream_app.cdc.debezium.placeholders import (
    DEFAULT_PLACEHOLDER,
    Placeholder,
    is_placeholder_property,
    placeholder_of,
)
from stream_app.cdc.json_records.decoder_choice import ARRAYS, DECODER, DECODER_OPTION
from stream_app.cdc.json_records.json_options import (
    COLUMN_NAMES,
    ENCODING_OPTION,
    SOURCE_COLUMN_OPTIONS,
    TRUNCATE_OPTION,
    UNKNOWN_COLUMNS,
    CheckedOptions,
    parse_format_options,
)
from stream_app.cdc.source_types.remarks import REPLACES_NULLS
from stream_app.errors import UsageError
from stream_app.model.options.option import TEXT, Option, choice
from stream_app.model.schema.data_type import DataType, RowType
from stream_app.model.source.mapping_options import InexactTimes

SECTION = "debezium"
DECIMAL_MODE = "decimal.handling.mode"
TIME_MODE = "time.precision.mode"
BINARY_MODE = "binary.handling.mode"
REPLICA_IDENTITY = "replica-identity"
UNPROVEN_KEYS = "unproven-keys"
SOURCE_KEY = "source-key"
UNCHANGED_VALUES = "unchanged-values"
PLACEHOLDER_VALUE = "unavailable.value.placeholder"

OPTIONS: tuple[Option[Any], ...] = (
    choice(
        DECIMAL_MODE,
        "How the connector writes DECIMAL and NUMERIC.",
        ("precise", "string", "double"),
    ),
    choice(
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
    choice(
        BINARY_MODE,
        "How the connector writes bytes; also for messages with a schema, which does not say so.",
        ("bytes", "base64", "base64-url-safe", "hex"),
    ),
    TRUNCATE_OPTION,
    *SOURCE_COLUMN_OPTIONS,
    choice(
        REPLICA_IDENTITY,
        "Contents of before-images: what each message proves (`auto`), the whole row (`full`), "
        "or only the source's key (`default`, PostgreSQL's own).",
        tuple(identity.value for identity in ReplicaIdentity),
    ),
    choice(
        UNPROVEN_KEYS,
        "Effect of an update or a delete whose row is not certain: it stops the job, or is a bad "
        "record.",
        ("stop", "quarantine"),
    ),
    Option(
        SOURCE_KEY,
        COLUMN_NAMES,
        frozenset(),
        "Columns of the source's key, comma separated; absent: those of the Kafka keys.",
    ),
    choice(
        UNCHANGED_VALUES,
        "Effect of an update without a before-image that leaves an unchanged value out (TOAST): "
        "the value is looked up in the table, or the record is bad.",
        ("lookup", "quarantine"),
    ),
    choice(
        REPLACES_NULLS,
        "Whether the connector's converter writes a column's DEFAULT in place of null; the job "
        "names the columns that may have lost nulls so.",
        ("true", "false"),
    ),
    Option(
        PLACEHOLDER_VALUE,
        TEXT,
        DEFAULT_PLACEHOLDER,
        "The connector's stand-in for an unchanged value; behind `hex:` its bytes.",
    ),
    ENCODING_OPTION,
)

JSON_OPTIONS = (*OPTIONS, DECODER_OPTION)
"""The options of ``debezium-json``."""

_OLDER_VALUES = {(UNKNOWN_COLUMNS, "strict"): DriftReaction.QUARANTINE.value}
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
        """Columns of the source's key, or None if the messages' keys name them."""
        return self.values.get(SOURCE_KEY) or None

    @property
    def identity(self) -> ReplicaIdentity:
        """The content of before-images."""
        return ReplicaIdentity(self.values[REPLICA_IDENTITY])

    @property
    def looks_up(self) -> bool:
        """Whether the writer looks up the values that an update omits."""
        return bool(self.values[UNCHANGED_VALUES] == "lookup")

    @property
    def sends_bytes(self) -> bool:
        """Whether the connector sends bytes as they are, rather than as encoded text."""
        return bool(self.values[BINARY_MODE] == "bytes")

    @property
    def writes_times(self) -> bool:
        """Whether a STRING column gets times of day as text, rather than as counts."""
        return bool(self.values.get(INEXACT) == InexactTimes.STRING.value)

    @property
    def placeholder(self) -> Placeholder:
        """The stand-in for an unchanged value."""
        return placeholder_of(self.values.get(PLACEHOLDER_VALUE, DEFAULT_PLACEHOLDER))

    @property
    def decoder(self) -> str:
        """See `decoder_choice`; formats without a compiled decoder have arrays."""
        return str(self.values.get(DECODER, ARRAYS))

    @property
    def quarantines_uncertain(self) -> bool:
        """Whether a change of an uncertain row becomes a bad record instead of stopping the job."""
        return bool(self.values[UNPROVEN_KEYS] == "quarantine")


def parse_options(
    options: Mapping[str, str],
    columns: RowType,
    name: str = "debezium-json",
    format_options: tuple[Option[Any], ...] = JSON_OPTIONS,
) -> DebeziumOptions:
    """Parse and check the options of a table's format.

    Args:
        name, format_options: the name of the format, and its declared options.

    Raises:
        UsageError: lists all problems, with the nearest known spelling of unknown names.
    """
    current_options = {
        key: _OLDER_VALUES.get((key, value), value) for key, value in options.items()
    }
    checked_options = parse_format_options(name, SECTION, format_options, current_options, columns)
    placeholder = checked_options.values.get(PLACEHOLDER_VALUE, DEFAULT_PLACEHOLDER)
    if not is_placeholder_property(placeholder):
        raise UsageError(
            f"{PLACEHOLDER_VALUE} = {placeholder!r} is not a placeholder",
            where=f"source.{SECTION}",
            fix="take the connector's value, at least one character; behind `hex:` an even number "
            "of hexadecimal digits",
        )
    return DebeziumOptions(checked_options.values, checked_options.encodings)


def key_rules(
    checked_options: DebeziumOptions, primary_keys: tuple[str, ...], traits: TableTraits
) -> KeyRules:
    """Return the rules of a table. If old rows always stay, no message has to prove its row."""
    return KeyRules(
        identity=checked_options.identity,
        primary_key=frozenset(() if traits.ignores_deletes else primary_keys),
        sequence_fields=frozenset(traits.sequence_fields),
        source_key=checked_options.source_key,
    )


def has_whole_before(options: Mapping[str, str]) -> bool:
    """Return whether the options promise that every before-image is whole."""
    return options.get(REPLICA_IDENTITY) == ReplicaIdentity.FULL.value


def keeps_nulls(options: Mapping[str, str]) -> bool:
    """Return whether the options promise that the converter keeps nulls."""
    return options.get(REPLACES_NULLS) == "false"


def default_encoding(data_type: DataType, modes: Mapping[str, str]) -> Encoding:
    """Return the encoding that a connector with these modes uses for a column of this type."""
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
