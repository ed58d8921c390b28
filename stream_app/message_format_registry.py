"""The registry of CDC formats: the only module that knows them all."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from stream_app.cdc.bad_reasons import UnreadableRecordError
from stream_app.cdc.canal.canal_json import CANAL_JSON
from stream_app.cdc.change_batch import change_schema
from stream_app.cdc.column_drift import COLUMN_ALIASES, parse_aliases
from stream_app.cdc.debezium.avro.debezium_avro import debezium_avro
from stream_app.cdc.debezium.bson.debezium_bson import DEBEZIUM_BSON
from stream_app.cdc.debezium.debezium_json import DEBEZIUM_JSON
from stream_app.cdc.debezium.wrapped.debezium_cloud_events import DEBEZIUM_CLOUD_EVENTS
from stream_app.cdc.debezium.wrapped.debezium_json_schema import debezium_json_schema
from stream_app.cdc.dms.dms_json import DMS_JSON
from stream_app.cdc.json_documents import load_document
from stream_app.cdc.lower_case_names import Describe, LoweredDecode, LoweredDescription
from stream_app.cdc.maxwell.maxwell_json import MAXWELL_JSON
from stream_app.cdc.message_format import Format, FormatSetup, MessageFormat, SourceReader
from stream_app.cdc.ogg.ogg_json import OGG_JSON
from stream_app.cdc.pipeline import Pipeline, Step, StepPlace
from stream_app.cdc.plain.cloud_events import CLOUD_EVENTS
from stream_app.cdc.plain.plain_avro import plain_avro
from stream_app.cdc.plain.plain_json import PLAIN_JSON
from stream_app.cdc.plain.plain_json_schema import plain_json_schema
from stream_app.cdc.plain.plain_protobuf import plain_protobuf
from stream_app.cdc.schema_registry_port import URL
from stream_app.cdc.source_tables import Origins
from stream_app.cdc.steps.column_aliases import ColumnAliases, with_names_of_source
from stream_app.cdc.steps.described_columns import DescribedColumns
from stream_app.cdc.wire.wide_numbers import with_wide_numbers
from stream_app.cdc.wire.wire_format import HEAD
from stream_app.errors import UsageError
from stream_app.kafka.schema_registry import REGISTRIES
from stream_app.model.near_names import known_names

_DEBEZIUM_AVRO, _DEBEZIUM_JSON_SCHEMA, _AVRO, _JSON_SCHEMA, _PROTOBUF = (
    with_wide_numbers(of(REGISTRIES))
    for of in (debezium_avro, debezium_json_schema, plain_avro, plain_json_schema, plain_protobuf)
)
_OF_DEBEZIUM = (DEBEZIUM_JSON, _DEBEZIUM_AVRO, _DEBEZIUM_JSON_SCHEMA, DEBEZIUM_BSON)
_OTHERS = (CANAL_JSON, MAXWELL_JSON, OGG_JSON, DMS_JSON)
_PLAIN = (PLAIN_JSON, _AVRO, _JSON_SCHEMA, _PROTOBUF)
_EVENTS = (CLOUD_EVENTS, DEBEZIUM_CLOUD_EVENTS)
FORMATS: dict[str, Format] = {
    declared.name: declared for declared in (*_OF_DEBEZIUM, *_OTHERS, *_PLAIN, *_EVENTS)
}
DEFAULT_FORMAT = DEBEZIUM_JSON.name
_CONFLUENT_MAGIC = b"\0"
"""The byte before the number of a registry's schema."""


def format_named(name: str) -> Format:
    """The declaration of a format.

    Raises:
        UsageError: there is no such format.
    """
    if name not in FORMATS:
        raise UsageError(
            f"unknown message format {name!r}",
            where="source.format",
            fix=known_names(name, FORMATS),
        )
    return FORMATS[name]


def likely_format(values: Sequence[bytes]) -> str | None:
    """The format of which these messages have the signs; None: of none.

    A third of them must have signs: heartbeats and markers of transactions have none.
    """
    counts = Counter(filter(None, map(_likely_format, values)))
    name, count = counts.most_common(1)[0] if counts else (None, 0)
    return name if 3 * count > len(values) else None


def is_read_by(signs: str, chosen: str) -> bool:
    """Whether messages with the signs of one format may be another's.

    Flattened documents look like Debezium's JSON, and all messages with a registry's number alike.
    """
    if _asks_a_registry(signs):
        return _asks_a_registry(chosen)
    return (signs, chosen) == (DEBEZIUM_JSON.name, DEBEZIUM_BSON.name)


def _asks_a_registry(name: str) -> bool:
    return any(option.key == URL for option in FORMATS[name].options)


def _likely_format(value: bytes) -> str | None:
    if value.startswith(_CONFLUENT_MAGIC):
        return _likely_registered(value)
    try:
        document = load_document(value)
    except UnreadableRecordError:
        return None
    if isinstance(document, dict) and document.keys() == {"schema", "payload"}:
        document = document["payload"]
    names = document.keys() if isinstance(document, dict) else set[str]()
    signs = [
        (len(fields), declared.name)
        for declared in FORMATS.values()
        for fields in declared.signs
        if fields <= names
    ]
    return max(signs)[1] if signs else None


def _likely_registered(value: bytes) -> str:
    """The format of a message with a registry's head."""
    if not value[HEAD.size :].startswith(b"{"):
        return _DEBEZIUM_AVRO.name
    is_debezium = _likely_format(value[HEAD.size :]) == DEBEZIUM_JSON.name
    return (_DEBEZIUM_JSON_SCHEMA if is_debezium else _JSON_SCHEMA).name


def source_reader(name: str, options: Mapping[str, str]) -> SourceReader:
    """Make the reader of the facts that messages have about their source.

    Raises:
        UsageError: unknown format, or options that it cannot be made of.
    """
    return format_named(name).reader(options)


def message_format(name: str, setup: FormatSetup) -> Pipeline:
    """Make a format, with the steps that are its own options'.

    Raises:
        UsageError: unknown format or option, or a value that the option does not have.
    """
    declared = format_named(name)
    options = dict(setup.options)
    wanted = parse_aliases(options.pop(COLUMN_ALIASES, ""))
    renamed = {name: to for name, to in setup.renamed.items() if name not in wanted}
    aliases = {**renamed, **wanted}
    setup = replace(setup, options=options)
    reading = with_names_of_source(setup, aliases) if aliases else setup
    steps: dict[StepPlace, Step] = {}
    if aliases:
        schema = change_schema(setup.arrow_schema)
        steps[StepPlace.COLUMN_ALIASES] = ColumnAliases(
            aliases=aliases, schema=schema, exclusive=frozenset(renamed)
        )
    if not setup.traits.lowers_names and setup.mapping is None:
        return Pipeline(declared.make(reading), steps)
    describe: Describe = declared.reader(options).describe
    decoder: MessageFormat
    if setup.traits.lowers_names:
        decoder = LoweredDecode(
            make=functools.partial(_make, name),
            describe=describe,
            origins=functools.partial(origins_in, name, options),
            setup=reading,
        )
        describe = LoweredDescription(describe)
    else:
        decoder = declared.make(reading)
    if setup.mapping is not None:
        steps[StepPlace.DESCRIBED_COLUMNS] = DescribedColumns(
            describe=describe, options=setup.mapping, columns=setup.columns, aliases=aliases
        )
    return Pipeline(decoder, steps)


def _make(name: str, setup: FormatSetup) -> MessageFormat:
    """Can be pickled with a name, which functions of a format need not be."""
    return format_named(name).make(setup)


def origins_in(name: str, options: Mapping[str, str], messages: pa.RecordBatch) -> Origins:
    """The source table of each message of a format; can be pickled with its arguments."""
    return source_reader(name, options).origins(messages)
