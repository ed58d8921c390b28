"""Messages under each setting of a connector are decoded as the pages say.

The messages are a real connector's (`python -m tests.testbed.capture settings`), of one row's life:
it is there, changes, another one comes and goes, the first changes back. The expected values are
those of the SQL.
"""

# ruff: noqa: DTZ001 - a TIMESTAMP has no zone

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from stream_app.cdc.change_batch import DecodedBatch
from stream_app.cdc.source_tables import NO_TABLE
from stream_app.errors import SourceError
from stream_app.message_format_registry import make_source_extractor
from stream_app.model.source.mapping_options import NO_MAPPING_OPTIONS
from tests.support.messages.debezium_messages import (
    a_format,
    captured_messages,
    reasons_of,
    rows_of,
)

FILE = "debezium_pg_settings"
COLUMNS = (
    "id INT, n DECIMAL(10, 2), d DATE, t TIME(6), ts TIMESTAMP(6), tz TIMESTAMP_LTZ(6), "
    "i STRING, h STRING, b BYTES, `odd-name` STRING"
)
ROW: dict[str, Any] = {
    "id": 1,
    "n": Decimal("12.34"),
    "d": dt.date(2024, 2, 29),
    "t": dt.time(23, 59, 59, 123000),  # Paimon keeps a time to the millisecond
    "ts": dt.datetime(2024, 2, 29, 23, 59, 59, 123456),
    "tz": dt.datetime(2024, 2, 29, 21, 59, 59, 123456, tzinfo=dt.UTC),
    "i": "93784500000",
    "h": '{"a":"1","b":null}',
    "b": b"\xfb\xff\x10",
    "odd-name": "x",
}
TEXT_MODES = {
    "decimal.handling.mode": "string",
    "time.precision.mode": "isostring",
    "binary.handling.mode": "hex",
}
MODES: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    "default": ({}, {}),
    "text": (TEXT_MODES, {"i": "P0Y0M1DT2H3M4.5S"}),
    "double": (
        {
            "decimal.handling.mode": "double",
            "time.precision.mode": "connect",
            "binary.handling.mode": "base64",
        },
        {"ts": ROW["ts"].replace(microsecond=123000)},
    ),
    "micros": (
        {"time.precision.mode": "microseconds", "binary.handling.mode": "base64-url-safe"},
        {},
    ),
    "nanos": ({"time.precision.mode": "nanoseconds"}, {}),
    "clock": ({"time.precision.mode": "adaptive_time_microseconds"}, {}),
    "numeric": ({}, {}),
    "propagated": ({}, {}),
}
LIFE = [("+I", 1, "x"), ("+U", 1, "y"), ("+I", 2, None), ("-D", 2, None), ("+U", 1, "x")]
NO_DELETE = [change for change in LIFE if change[0] != "-D"]
CREATES = [("+I", *rest) for _, *rest in NO_DELETE]


def decoded_topic(topic: str, options: dict[str, str] | None = None) -> DecodedBatch:
    return a_format(COLUMNS, options=options).decode(captured_messages(FILE, topic))


def life(topic: str) -> list[tuple[Any, ...]]:
    outcome = decoded_topic(topic)
    assert reasons_of(outcome) == {}
    return [(kind, row[0], row[-1]) for _, kind, *row in rows_of(outcome)]


@pytest.mark.parametrize("mode", MODES)
def test_plain_messages_need_the_connectors_modes(mode: str) -> None:
    options, differs = MODES[mode]
    if mode == "default":  # plain JSON does not say that a time counts microseconds
        options = {"column.t.encoding": "epoch-micros"}
    outcome = decoded_topic(f"plain_{mode}.shop.typed", options)
    assert reasons_of(outcome) == {}
    assert [row[2:] for row in rows_of(outcome)] == [tuple({**ROW, **differs}.values())]


@pytest.mark.parametrize("mode", MODES)
def test_all_modes_but_that_of_bytes_are_read_from_the_envelope(mode: str) -> None:
    options, differs = MODES[mode]
    only = {key: value for key, value in options.items() if key == "binary.handling.mode"}
    outcome = decoded_topic(f"envelope_{mode}.shop.typed", only)
    assert reasons_of(outcome) == {}
    assert [row[2:] for row in rows_of(outcome)] == [tuple({**ROW, **differs}.values())]


@pytest.mark.parametrize("mode", ["text", "double", "micros"])
def test_bytes_that_are_text_are_never_guessed(mode: str) -> None:
    """Hexadecimal digits are base64 as well."""
    outcome = decoded_topic(f"envelope_{mode}.shop.typed")
    assert (
        "is text in the message's schema, and binary.handling.mode is bytes"
        in (reasons_of(outcome)[0])
    )


def test_a_jobs_own_columns_have_the_types_of_the_source() -> None:
    """`column.propagate.source.type`; without it the modes decide the types."""
    settings = {
        name: described_types(f"envelope_{name}.shop.typed")
        for name in ("propagated", "default", "text")
    }
    assert settings["propagated"]["tz"] == "TIMESTAMP(6) WITH LOCAL TIME ZONE"
    assert settings["propagated"]["t"] == "BIGINT"
    assert settings["default"]["tz"] == "TIMESTAMP(6)"
    assert (settings["text"]["n"], settings["text"]["b"], settings["text"]["i"]) == ("STRING",) * 3


def described_types(topic: str) -> dict[str, str]:
    description = make_source_extractor("debezium-json", {}).describe(
        captured_messages(FILE, topic), NO_MAPPING_OPTIONS
    )
    assert description is not None
    return {column.name: str(column.data_type) for column in description.columns}


def test_names_are_those_of_the_messages() -> None:
    """`field.name.adjustment.mode = avro`."""
    assert "odd_name" in described_types("envelope_named.shop.typed")


@pytest.mark.parametrize(
    ("setting", "rows"),
    [
        ("no_tombstones", LIFE),
        ("skipped", NO_DELETE),  # skipped.operations = d
        ("inserted", LIFE),  # InsertField
        ("router", LIFE),
        ("router_field", LIFE),
        ("whole", [*LIFE, ("+I", 1, "x")]),  # an incremental snapshot sends the row again
        ("flat_drop", NO_DELETE),
        ("flat_tombstone", NO_DELETE),
        ("flat_delete_to_tombstone", NO_DELETE),
        ("flat_rewrite", LIFE),
        ("flat_rewrite_with_tombstone", LIFE),
        ("flat_bare", CREATES),
    ],
)
def test_a_rows_life(setting: str, rows: list[tuple[Any, ...]]) -> None:
    name = "all" if setting.startswith("router") else "typed"
    assert life(f"life_{setting}.shop.{name}") == rows


def test_other_prefixes_of_added_fields_hide_op_and_table() -> None:
    """`add.fields.prefix`: updates look like creates; `__deleted` marks deletes."""
    topic = "life_flat_prefix.shop.typed"
    assert [kind for kind, *_ in life(topic)] == ["+I", "+I", "+I", "-D", "+I"]
    [reason] = set(origins(topic).unassigned_reasons.values())
    assert "flattened messages need add.fields=op,db,schema,table" in reason


def test_another_name_of_the_routers_key_field_hides_the_key() -> None:
    """`key.field.name` of ByLogicalTableRouter; its default name is known."""
    source_extractor = make_source_extractor("debezium-json", {})
    keys = {}
    for name in ("router", "router_field"):
        description = source_extractor.describe(
            captured_messages(FILE, f"life_{name}.shop.all"), NO_MAPPING_OPTIONS
        )
        assert description is not None
        keys[name] = description.primary_keys
    assert keys == {"router": ("id",), "router_field": ()}


def test_time_zones_move_timestamps() -> None:
    """TimezoneConverter takes a TIMESTAMP for a time in its zone; a TIMESTAMPTZ stays itself."""
    first = rows_of(decoded_topic("life_tokyo.shop.typed"))[0]
    assert first[6:8] == (ROW["ts"] - dt.timedelta(hours=9), ROW["tz"])


def test_keys_as_text_prove_no_row() -> None:
    """`key.converter = StringConverter`."""
    with pytest.raises(SourceError, match="the message's key is not a JSON object"):
        decoded_topic("life_text_keys.shop.typed")


@pytest.mark.parametrize("setting", ["cloud_events", "hoisted"])
def test_other_wrappings_are_bad_records(setting: str) -> None:
    """CloudEventsConverter, HoistField."""
    outcome = decoded_topic(f"life_{setting}.shop.typed")
    assert len(reasons_of(outcome)) + outcome.skipped_count == len(
        captured_messages(FILE, f"life_{setting}.shop.typed")
    )
    assert rows_of(outcome) == []


@pytest.mark.parametrize(
    "topic", ["__debezium-heartbeat.life_whole", "life_whole.transaction", "life_whole.message"]
)
def test_the_decoder_skips_messages_without_a_row(topic: str) -> None:
    """`heartbeat.interval.ms`, `provide.transaction.metadata`, `pg_logical_emit_message`."""
    outcome = decoded_topic(topic)
    assert (outcome.skipped_count, rows_of(outcome)) == (len(captured_messages(FILE, topic)), [])
    assert set(origins(topic).codes.tolist()) == {NO_TABLE}


def origins(topic: str) -> Any:
    return make_source_extractor("debezium-json", {}).find_origins(captured_messages(FILE, topic))


def test_signals_are_a_table_like_others() -> None:
    """`signal.data.collection`: leave it out with `excluding-tables`."""
    [table] = origins("life_whole.shop.signal").tables
    assert str(table) == "shop.shop.signal"


def test_an_outbox_event_is_a_plain_row() -> None:
    """EventRouter: the payload alone, without the name of a table."""
    outcome = a_format("id INT, total DOUBLE", name="json").decode(
        captured_messages(FILE, "outbox.event.order")
    )
    assert [row[1:] for row in rows_of(outcome)] == [("+I", 7, 1.5)]
    assert "does not name its table" in next(
        iter(origins("outbox.event.order").unassigned_reasons.values())
    )
