"""A job of one table quarantines records of other source tables, and decodes the rest."""

from __future__ import annotations

import pickle
from dataclasses import replace
from functools import partial

import pytest

from stream_app.app.table_setup.format_pipeline import format_pipeline
from stream_app.cdc.message_format import FormatSetup
from stream_app.cdc.pipeline import Pipeline
from stream_app.cdc.pipeline_steps.own_message_decoder import OwnMessageDecoder, SourceFilter
from stream_app.errors import WrongSourceError
from stream_app.format.arrow_schema import arrow_schema
from stream_app.message_format_registry import origins_in
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.source.mapping_options import NO_MAPPING_OPTIONS
from tests.support.messages.debezium_messages import a_format, messages, reasons_of, rows_of

ROW = '"id":%d,"v":"x"'
FORMS = {
    "debezium-json": '{"op":"c","before":null,"after":{ROW},'
    '"source":{"connector":"mysql","db":"d","table":"%s"}}',
    "maxwell-json": '{"database":"d","table":"%s","type":"insert","data":{ROW}}',
    "canal-json": '{"database":"d","table":"%s","type":"INSERT","isDdl":false,"data":[{ROW}]}',
    "ogg-json": '{"table":"d.%s","op_type":"I","after":{ROW}}',
    "aws-dms-json": '{"data":{ROW},"metadata":{"operation":"insert","schema-name":"d",'
    '"table-name":"%s","record-type":"data"}}',
}  # fmt: skip


def of_table(name: str, table: str, key: int) -> str:
    return (FORMS[name] % table).replace("{ROW}", "{%s}" % (ROW % key))


def decoder(name: str, source_filter: SourceFilter, **options: str) -> Pipeline:
    pipeline = a_format(name=name, options=options)
    return replace(
        pipeline,
        own_message_decoder=OwnMessageDecoder(
            find_origins=partial(origins_in, name, {}), source_filter=source_filter
        ),
    )


@pytest.mark.parametrize("name", FORMS)
def test_a_stranger_is_quarantined_once_the_table_is_known(name: str) -> None:
    mixed_messages = messages(
        of_table(name, "orders", 1), of_table(name, "customers", 2), of_table(name, "orders", 3)
    )
    outcome = decoder(name, SourceFilter()).decode(mixed_messages)
    assert outcome.record_counts == {"d.orders": 2, "d.customers": 1}
    assert [position for position, *_ in rows_of(outcome)] == [0, 1, 2], (
        "the job decides, and decodes again"
    )

    pipeline = decoder(name, SourceFilter(own_names=frozenset({"d.orders"})))
    outcome = pickle.loads(pickle.dumps(pipeline)).decode(mixed_messages)
    assert [row[:3] for row in rows_of(outcome)] == [(0, "+I", 1), (2, "+I", 3)]
    assert (outcome.record_counts, outcome.other_record_count) == ({"d.orders": 2}, 1)
    assert outcome.tables == {"d.orders": 0, "d.customers": 1}
    assert reasons_of(outcome) == {
        1: "is of the source's table d.customers, and the rows of this table are those of d.orders"
    }


def test_a_record_without_a_source_is_quarantined_if_the_job_says_so() -> None:
    nameless = '{"op":"c","before":null,"after":{"id":9,"v":"x"}}'
    mixed_messages = messages(nameless, None, of_table("debezium-json", "orders", 1))
    assert len(rows_of(decoder("debezium-json", SourceFilter()).decode(mixed_messages))) == 2
    source_filter = SourceFilter(
        own_names=frozenset({"d.orders"}), foreign_sources=frozenset({("t", "")})
    )
    outcome = decoder("debezium-json", source_filter).decode(mixed_messages)
    assert [position for position, *_ in rows_of(outcome)] == [2]
    assert outcome.skipped_count == 1, "a tombstone is of no table"
    assert reasons_of(outcome)[0].startswith("does not name its source table")


@pytest.mark.parametrize("truncate", ["error", "apply", "ignore"])
def test_the_truncate_of_another_table_empties_nothing_and_stops_nothing(truncate: str) -> None:
    source = '"source":{"connector":"mysql","db":"d","table":"%s"}'
    truncate_value = '{"op":"t","before":null,"after":null,%s}' % (source % "customers")
    source_filter = SourceFilter(own_names=frozenset({"d.orders"}))
    good = of_table("debezium-json", "orders", 1)
    outcome = decoder("debezium-json", source_filter, truncate=truncate).decode(
        messages(good, truncate_value, good)
    )
    assert [position for position, *_ in rows_of(outcome)] == [0, 2]
    other_count = outcome.other_record_count if truncate != "ignore" else 1
    assert (outcome.last_truncate, other_count) == (None, 1)
    ours = truncate_value.replace("customers", "orders")
    with pytest.raises(WrongSourceError, match="was truncated"):
        decoder("debezium-json", source_filter).decode(messages(good, ours))


def test_a_truncate_before_the_job_knows_its_table_is_refused() -> None:
    truncate_value = '{"op":"t","before":null,"after":null,"source":{"connector":"mysql","db":"d",'
    truncate_value += '"table":"customers"}}'
    good = of_table("debezium-json", "orders", 1)
    first = decoder("debezium-json", SourceFilter(is_open=True))
    decoded_batch = pickle.loads(pickle.dumps(first)).decode(
        messages(good, truncate_value, None, good)
    )
    assert "was truncated" in str(decoded_batch.refusal)
    assert decoded_batch.record_counts == {"d.orders": 2, "d.customers": 1}
    assert decoded_batch.tables == {"d.orders": 0, "d.customers": 1}
    assert rows_of(decoded_batch) == []


def test_a_truncate_shows_its_table_before_the_job_knows_its_own() -> None:
    source = '"source":{"connector":"mysql","db":"d","table":"customers"}'
    truncate_value = f'{{"op":"t","before":null,"after":null,{source}}}'
    good = of_table("debezium-json", "orders", 1)
    first = decoder("debezium-json", SourceFilter(), truncate="apply")
    outcome = first.decode(messages(good, truncate_value, good))
    assert outcome.record_counts == {"d.orders": 2, "d.customers": 1}, (
        "the job leaves customers out"
    )
    source_filter = SourceFilter(foreign_sources=frozenset({("t", "d.customers")}))
    outcome = decoder("debezium-json", source_filter, truncate="apply").decode(
        messages(good, truncate_value, good)
    )
    assert (outcome.last_truncate, outcome.other_record_count) == (None, 1)
    assert len(rows_of(outcome)) == 2


def test_a_bad_record_of_another_table_describes_no_columns() -> None:
    source = '"source":{"connector":"mysql","db":"d","table":"customers"}'
    after = '{"type":"struct","field":"after","fields":[{"type":"int64","field":"v"}]}'
    schema = f'{{"type":"struct","fields":[{after}]}}'
    event = f'{{"op":"c","before":null,"after":{{"v":5}},{source}}}'
    without_key = f'{{"schema":{schema},"payload":{event}}}'
    row_type = parse_columns("id BIGINT, v STRING")
    follows = format_pipeline(
        "debezium-json",
        FormatSetup(
            columns=row_type,
            arrow_schema=arrow_schema(row_type),
            primary_keys=("id",),
            options={"unknown-columns": "evolve"},
            keeps_update_before=False,
            mapping_options=NO_MAPPING_OPTIONS,
        ),
    )
    source_filter = SourceFilter(own_names=frozenset({"d.orders"}))
    own_message_decoder = OwnMessageDecoder(
        find_origins=partial(origins_in, "debezium-json", {}), source_filter=source_filter
    )
    decode = replace(follows, own_message_decoder=own_message_decoder)
    mixed_messages = messages(of_table("debezium-json", "orders", 1), without_key)
    assert follows.decode(mixed_messages).description is not None, "v is BIGINT there"
    outcome = decode.decode(mixed_messages)
    assert outcome.description is None
    assert (outcome.record_counts, outcome.other_record_count) == ({"d.orders": 1}, 0), (
        "bad anyway: no reason to stop"
    )
    assert list(reasons_of(outcome)) == [1]


def test_only_a_few_names_of_other_tables_are_kept() -> None:
    source_filter = SourceFilter(own_names=frozenset({"d.orders"}))
    strange = [of_table("debezium-json", f"t{index}" * 50, index) for index in range(1000)]
    outcome = decoder("debezium-json", source_filter).decode(messages(*strange))
    assert outcome.other_record_count == outcome.bad_records.num_rows == 1000
    assert len(outcome.tables) == 5
