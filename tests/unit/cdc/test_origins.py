"""The origins of many messages are those that are found one by one.

The expected tables of captured messages are those of the topics that Debezium chose.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.cdc.source_tables import NO_TABLE, Origins, origins_of, origins_with_clusters
from stream_app.message_format_registry import FORMATS
from stream_app.model.source.origin import Origin
from tests.support.messages.debezium_messages import fixture_lines

ORIGINS = FORMATS["debezium-json"].make_source_extractor({}).find_origins
SOURCE = {"connector": "postgresql", "db": "d", "schema": "s", "table": "t", "lsn": 1}


def origins(*values: bytes | None) -> Origins:
    return ORIGINS(pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary())}))


def names(tables: Origins) -> list[str | None]:
    """Each message's table in words; None: none; the reason where it cannot be read."""
    return [
        tables.unassigned_reasons.get(index, None if code == NO_TABLE else str(tables.tables[code]))
        for index, code in enumerate(tables.codes.tolist())
    ]


def envelope(*, row: Any = None, op: str = "c", transaction: Any = None, **source: Any) -> bytes:
    document = {"before": None, "after": row or {"id": 1}, "source": SOURCE | source}
    document |= {"transaction": transaction, "op": op, "ts_ms": 1}
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


@pytest.mark.parametrize("kind", ["pg_plain", "pg_schema", "mariadb_plain"])
def test_captured_messages_are_of_the_table_that_their_topic_names(kind: str) -> None:
    lines = fixture_lines(f"debezium_{kind}")
    values = [line["value"] for line in lines]
    tables = origins(*(None if value is None else value.encode() for value in values))
    assert not tables.unassigned_reasons
    rows = 0
    for line, name in zip(lines, names(tables), strict=True):
        parts = line["topic"].split(".")
        if name is None:
            assert line["value"] is None or len(parts) < 3
        else:
            rows += 1
            assert name.split(".")[-2:] == parts[1:]
    assert rows > 10


def test_flattened_messages_are_of_the_table_that_was_added() -> None:
    lines = [line for line in fixture_lines("debezium_pg_flat") if line["value"]]
    tables = origins(*(line["value"].encode() for line in lines))
    topics = [line["topic"].split(".") for line in lines]
    expected = [None if len(topic) < 3 else topic[2] for topic in topics]
    assert names(tables) == expected


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [line["value"] for kind in ("pg_plain", "pg_schema", "mariadb_plain", "pg_flat")
             for line in fixture_lines(f"debezium_{kind}")]
            + ['{"id":', "[]", "null", '{"id":1}', "7"]
        ),
        max_size=40,
    )
)  # fmt: skip
def test_the_origin_of_a_message_does_not_depend_on_its_neighbours(
    values: list[str | None],
) -> None:
    bytes_of = [None if value is None else value.encode() for value in values]
    assert names(origins(*bytes_of)) == [names(origins(value))[0] for value in bytes_of]


def test_messages_of_many_tables_between_each_other() -> None:
    values = [envelope(table=f"t{index % 7}", lsn=10 ** (index % 12)) for index in range(700)]
    assert names(origins(*values)) == [f"d.s.t{index % 7}" for index in range(700)]


@pytest.mark.parametrize(
    "source",
    [
        {"table": 'a "quoted" name'},
        {"table": "naïve"},
        {"table": "x"},
        {"db": ""},
        {"schema": None},
        {"table": "t\\n"},
    ],
)
def test_names_of_any_kind(source: dict[str, str]) -> None:
    parts = {"db": "d", "schema": "s", "table": "t", **source}
    expected = ".".join(filter(None, parts.values()))
    values = [envelope(**source) for _ in range(50)]
    assert (
        names(origins(*values, envelope(), *values))
        == [expected] * 50 + ["d.s.t"] + [expected] * 50
    )


def test_a_row_that_looks_like_another_table() -> None:
    # Columns of the names of source's fields, as values and as text, nested and not.
    row = {"db": "d", "schema": "s", "table": "t", "source": SOURCE, "op": "c"}
    values = [envelope(table="u", row=row), envelope(table="u", row={"v": json.dumps(SOURCE)})]
    assert names(origins(*[envelope()] * 20, *values, *[envelope()] * 20)) == [
        *["d.s.t"] * 20, "d.s.u", "d.s.u", *["d.s.t"] * 20
    ]  # fmt: skip


def test_transactions_truncates_and_what_means_no_row() -> None:
    transaction = {"id": "1:2", "total_order": 1, "data_collection_order": 1}
    tables = origins(
        envelope(transaction=transaction),
        envelope(op="t"),
        envelope(op="m", table=""),
        None,
        b'{"ts_ms":1}',
        b'{"status":"BEGIN","id":"1","event_count":null,"data_collections":null,"ts_ms":1}',
        b'{"source":{"db":"d","table":"t"},"databaseName":"d","ddl":"DROP TABLE t"}',
    )
    assert names(tables) == ["d.s.t", "d.s.t", None, None, None, None, None]


def test_garbage_has_a_reason_and_changes_nothing_for_others() -> None:
    tables = origins(b"{", envelope(), b"[]", b"\xff", b'{"id":1}', b'{"op":"c","after":{"id":1}}')
    table_names = names(tables)
    assert table_names[1] == "d.s.t"
    assert [tables.codes[position] for position in (0, 2, 3, 4, 5)] == [NO_TABLE] * 5
    for position, reason in (
        (0, "JSON"),
        (2, "array"),
        (3, "UTF-8"),
        (4, "__table"),
        (5, "its table"),
    ):
        assert reason in str(table_names[position])


@pytest.mark.parametrize("length", [1, 100, 511, 700])
def test_runs_of_many_tables(length: int) -> None:
    """A heartbeat, or a message without a table, may stand between the runs."""
    values: list[bytes] = []
    expected: list[str | None] = []
    for number in range(40):
        values += [envelope(table=f"t{number}", row={"id": index}) for index in range(length)]
        values += [b'{"ts_ms":1}', envelope(schema="", db="", table="t")]
        expected += [*[f"d.s.t{number}"] * length, None, "t"]
    assert names(origins(*values)) == expected


def test_origins_of_columns_dictionary_encoded_or_not() -> None:
    database, table = pa.array(["a", None, "b", "a"]), pa.array(["t", "t", None, "t"])
    for columns in ((database, table), (database.dictionary_encode(), table.dictionary_encode())):
        tables = origins_of(columns[0], pa.nulls(4, pa.string()), columns[1], {})
        assert names(tables) == ["a.t", "t", None, "a.t"]


def test_the_topics_cluster_tells_equal_names_apart() -> None:
    topics = ["t", "eu/t", "eu/t", "eu/t", "eu/t"]
    tables = ["shop.orders", "shop.items", None, "shop.orders", "shop.items"]
    messages = pa.record_batch({"topic": topics, "name": tables})

    def by_name(batch: pa.RecordBatch) -> Origins:
        return origins_of(
            pa.nulls(batch.num_rows, pa.string()),
            pa.nulls(batch.num_rows, pa.string()),
            batch.column("name"),
            {2: "is not JSON"},
        )

    tables_there = origins_with_clusters(by_name, messages)
    shown = ["shop.orders", "eu/shop.items", "is not JSON", "eu/shop.orders", "eu/shop.items"]
    assert names(tables_there) == shown
    # Of one cluster nothing changes, and a topic that stands for the table loses its cluster.
    assert origins_with_clusters(by_name, messages.slice(0, 1)).tables == (
        Origin("", "", "shop.orders"),
    )
    plain = pa.record_batch({"topic": ["eu/orders"], "name": ["eu/orders"]})
    assert origins_with_clusters(by_name, plain).tables == (Origin("", "", "orders", "eu"),)
