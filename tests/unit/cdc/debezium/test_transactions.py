"""The decoder finds the transaction of each of Debezium's messages, captured or wrong."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from stream_app.cdc.change_batch import MESSAGE_SCHEMA
from stream_app.cdc.debezium.message_transactions import debezium_transactions
from stream_app.cdc.transactions import MessageKind, MessageTransactions
from tests.support.messages.debezium_messages import captured_messages

FILE = "debezium_pg_settings"


def read(*values: bytes | None) -> MessageTransactions:
    rows = [
        {"topic": "t", "partition": 0, "offset": index, "key": None, "value": value}
        for index, value in enumerate(values)
    ]
    return debezium_transactions(pa.RecordBatch.from_pylist(rows, schema=MESSAGE_SCHEMA))


def kinds(transactions: MessageTransactions) -> list[str]:
    return [MessageKind(kind).name for kind in transactions.kinds.tolist()]


def test_changes_of_a_table_name_their_transaction_and_read_rows_do_not() -> None:
    transactions = debezium_transactions(captured_messages(FILE, "life_whole.shop.typed"))
    assert kinds(transactions) == ["READ", "CHANGE", "CHANGE", "CHANGE", "NONE", "CHANGE", "READ"]
    assert transactions.names.to_pylist() == [None, "863", "864", "865", None, "866", None]
    assert set(transactions.sources.to_pylist()) == {"life_whole", None}
    assert transactions.tables.to_pylist()[1] == "shop.shop.typed"
    assert transactions.orders.tolist() == [0, 1, 1, 1, 0, 1, 0]


def test_places_of_captured_changes_grow_with_the_commits_of_markers() -> None:
    changes = debezium_transactions(captured_messages(FILE, "life_whole.shop.typed"))
    assert changes.positions.tolist()[1:4] == [
        [26828440, 26828480, 0], [26828680, 26828680, 0], [26828888, 26828888, 0],
    ]  # fmt: skip
    commits = debezium_transactions(captured_messages(FILE, "life_whole.transaction")).end_markers
    assert commits.positions[:, 0].tolist() == sorted(commits.positions[:, 0].tolist())
    assert commits.positions.tolist()[1:3] == [[26828440, 0, 0], [26828680, 0, 0]]


@pytest.mark.parametrize(
    ("connector", "name", "log", "place"),
    [
        ("mysql", "file=mysql-bin.000012,pos=1234", "", [12, 1234, 0]),
        ("mysql", "24bc7850-2c16-11e6-a073-0242ac110002:23", "24bc7850-2c16-11e6-a073-0242ac110002",
         [23, 0, 0]),
        ("mariadb", "5-1-9", "5", [9, 0, 0]),
        ("sqlserver", "00000027:00000758:0005", "", [0x27, 0x758, 5]),
        ("oracle", "5.6.641", "", [-1, -1, -1]),
        ("postgresql", "7:99", "", [-1, -1, -1]),
    ],
)  # fmt: skip
def test_places_by_connector(connector: str, name: str, log: str, place: list[int]) -> None:
    """A change of PostgreSQL without `source.sequence` tells none; its id has the LSN alone."""
    block = {"id": name, "total_order": 1}
    change = {"op": "u", "source": {"connector": connector}, "transaction": block}
    end = {"status": "END", "id": name, "ts_ms": 1}
    transactions = read(json.dumps(change).encode(), json.dumps(end).encode())
    assert transactions.positions.tolist()[0] == place
    assert transactions.end_markers.logs.to_pylist() == [log]
    if connector != "postgresql":
        assert transactions.end_markers.positions.tolist() == [place]


def test_markers_have_the_commit_and_the_counts_of_each_table() -> None:
    transactions = debezium_transactions(captured_messages(FILE, "life_whole.transaction"))
    assert kinds(transactions) == ["BEGIN", "END"] * 14
    assert transactions.names.to_pylist()[4:6] == ["863", "863"], "their LSNs differ"
    end_markers = transactions.end_markers
    assert end_markers.message_indices.tolist() == list(range(1, 28, 2))
    assert end_markers.ids.to_pylist()[2] == "863:26828680"
    assert end_markers.times.tolist()[2] == 1795402470999
    assert end_markers.tables.to_pylist()[:3] == ["shop.done", "shop.done", "shop.typed"]
    # The transaction of index 6 has only a logical message, which no table has.
    counted_indices = [index for index in range(14) if index != 6]
    assert end_markers.counts.tolist() == [1] * 13
    assert end_markers.owners.tolist() == counted_indices


@pytest.mark.parametrize("topic", ["__debezium-heartbeat.life_whole", "life_router.shop.all"])
def test_messages_without_a_transaction(topic: str) -> None:
    transactions = debezium_transactions(captured_messages(FILE, topic))
    assert "CHANGE" not in kinds(transactions)
    assert transactions.names.null_count == len(transactions.kinds)


def test_the_envelope_with_a_schema_and_other_blanks() -> None:
    marker = {"status": "END", "id": "7", "ts_ms": 5, "data_collections": [
        {"data_collection": "a.b", "event_count": 2}, {"data_collection": "a.c", "event_count": 1},
    ]}  # fmt: skip
    text = json.dumps({"schema": {}, "payload": marker}, indent=1).encode()
    transactions = read(
        text, json.dumps({"schema": None, "payload": marker}).encode(), b'{"id": 5}'
    )
    assert kinds(transactions) == ["END", "END", "NONE"]
    assert transactions.end_markers.owners.tolist() == [0, 0, 1, 1]
    assert transactions.end_markers.tables.to_pylist() == ["a.b", "a.c"] * 2


def test_bytes_of_strangers_belong_to_nothing() -> None:
    transactions = read(
        b"", b"{", b"null", b"[]", b'"END"', b"\xff\xfe", None,
        b'{"status":"END"}', b'{"status":"END","id":5}', b'{"status":"END","id":null}',
        b'{"status":"end","id":"5"}', b'{"status":["END"],"id":"5"}',
        b'{"op":"u","transaction":"5"}', b'{"op":"u","transaction":{"id":"5","total_order":"x"}}',
        b'{"status":"END","id":"5","data_collections":7}', b"{" * 5000,
    )  # fmt: skip
    assert kinds(transactions) == ["NONE"] * len(transactions.kinds)
    assert not len(transactions.end_markers.message_indices)


def test_a_change_whose_block_is_null_is_unmarked() -> None:
    transactions = read(
        b'{"op":"u","transaction":null}',
        b'{"op":"c","transaction":{"id":null,"total_order":1}}',
        b'{"op":"d","transaction":{"id":"8f:1","total_order":3}}',
        b'{"op":"x","status":"END","id":"5"}',
    )
    assert kinds(transactions) == ["UNMARKED", "UNMARKED", "CHANGE", "NONE"]
    assert transactions.names.to_pylist() == [None, None, "8f:1", None]


def test_an_end_marker_without_counts_promises_nothing() -> None:
    transactions = read(b'{"status":"END","id":"5","ts_ms":null,"data_collections":null}')
    assert kinds(transactions) == ["END"]
    assert transactions.end_markers.times.tolist() == [0]
    assert not len(transactions.end_markers.counts)
