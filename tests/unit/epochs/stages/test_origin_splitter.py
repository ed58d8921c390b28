"""Messages go to the table of their source table, in their order, and no message is lost."""

from __future__ import annotations

import json
import pickle
from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest

from stream_app.epochs.stages.blocks import NEWCOMERS_INDEX, UNREADABLE_INDEX
from stream_app.epochs.stages.origin_splitter import SAMPLE_MESSAGES_MAX, OriginSplitter
from stream_app.message_format_registry import FORMATS
from stream_app.model.source.origin import Origin
from stream_app.planning.sync.table_assignment import Assignment
from stream_app.planning.sync.target_tables import SyncRules
from tests.support.messages.debezium_messages import Value, messages


def change(table: str, key: int = 0, database: str = "shop") -> str:
    source = {"connector": "mariadb", "db": database, "table": table}
    return json.dumps({"before": None, "after": {"id": key}, "source": source, "op": "c"})


def split(*values: Value, **assignment: Any) -> dict[int, list[Any]]:
    """Index → the offsets that it got; the reasons of what is unreadable."""
    defaults: dict[str, Any] = {
        "rules": SyncRules(),
        "table_indices": {"orders": 0, "customers": 1},
    }
    splitter = OriginSplitter(
        FORMATS["debezium-json"].make_source_extractor({}).find_origins,
        Assignment(**{**defaults, **assignment}),
    )
    splitter = pickle.loads(pickle.dumps(splitter))
    parts: dict[int, list[Any]] = defaultdict(list)
    for index, part, _ in splitter.split(messages(*values)):
        assert index not in parts, "one part a table"
        column = "reason" if index == UNREADABLE_INDEX else "offset"
        parts[index] = part.column(column).to_pylist()
        if index != UNREADABLE_INDEX:
            assert [values[offset] for offset in parts[index]] == [
                value.decode() for value in part.column("value").to_pylist()
            ]
    return dict(parts)


def test_a_batch_of_one_table_is_passed_on_without_a_copy() -> None:
    batch = messages(*(change("orders", key) for key in range(9)))
    splitter = OriginSplitter(
        FORMATS["debezium-json"].make_source_extractor({}).find_origins,
        Assignment(rules=SyncRules(), table_indices={"orders": 4}),
    )
    [(index, part, _)] = splitter.split(batch)
    assert (index, part.column("value").buffers()[2].address) == (
        4,
        batch.column("value").buffers()[2].address,
    )


def test_neighbours_of_one_table_are_passed_on_without_a_copy() -> None:
    names = ["customers", "orders", "orders", "items", "customers"]
    batch = messages(*(change(name, key) for key, name in enumerate(names)))
    splitter = OriginSplitter(
        FORMATS["debezium-json"].make_source_extractor({}).find_origins,
        Assignment(rules=SyncRules(), table_indices={"orders": 0, "customers": 1, "items": 2}),
    )
    mine = batch.column("value").buffers()[2].address
    parts = {index: part.column("value") for index, part, _ in splitter.split(batch)}
    assert {index for index, values in parts.items() if values.buffers()[2].address == mine} == {
        0,
        2,
    }
    assert [len(parts[index]) for index in range(3)] == [2, 2, 1]


def test_each_table_gets_its_messages_in_their_order() -> None:
    parts = split(*(change(("orders", "customers")[key % 3 == 0], key) for key in range(10)))
    assert parts == {0: [1, 2, 4, 5, 7, 8], 1: [0, 3, 6, 9]}


def test_the_splitter_leaves_messages_without_rows_out() -> None:
    parts = split(None, change("orders"), '{"ts_ms":1}', change("tmp"), None,
                  rules=SyncRules(excluding_tables="tmp"))  # fmt: skip
    assert parts == {0: [1]}
    assert split(None, '{"ts_ms":1}') == {}
    assert split() == {}


def test_a_table_that_the_job_lacks_is_new_and_some_of_its_messages_come() -> None:
    count = SAMPLE_MESSAGES_MAX + 20
    parts = split(*(change("items", key) for key in range(count)), change("orders"), change("x"))
    assert parts == {NEWCOMERS_INDEX: [*range(SAMPLE_MESSAGES_MAX), count + 1], 0: [count]}


def test_shards_go_into_one_table_that_is_there() -> None:
    assert split(change("orders"), change("orders", database="eu")) == {0: [0, 1]}
    divided_indices = split(
        change("orders"), change("orders", database="eu"),
        rules=SyncRules(merge_shards=False), table_indices={"shop_orders": 0},
    )  # fmt: skip
    assert divided_indices == {0: [0], NEWCOMERS_INDEX: [1]}


def test_a_message_without_a_table_has_a_reason_and_stops_no_other() -> None:
    parts = split(
        "{", change("orders"), change("customers"), change("customers"),
        refusal_reasons={Origin("shop", "", "customers"): "no such luck"},
    )  # fmt: skip
    assert parts[0] == [1]
    assert [reason[:12] for reason in parts[UNREADABLE_INDEX]] == [
        "is not JSON:",
        *["no such luck"] * 2,
    ]


@pytest.mark.parametrize("database", ["a", "b"])
def test_a_name_is_taken_by_the_first_table_when_databases_are_divided(database: str) -> None:
    targets = {Origin("shop", database, "t"): "shop_t"}
    parts = split(
        json.dumps({"op": "c", "after": {}, "source": {"db": "shop", "schema": "b", "table": "t"}}),
        rules=SyncRules(merge_shards=False), table_indices={"shop_t": 0}, targets=targets,
    )  # fmt: skip
    assert list(parts) == [0 if database == "b" else UNREADABLE_INDEX]


def test_a_splitter_reads_nothing_but_values() -> None:
    batch = messages(change("orders")).drop_columns(["key"])
    splitter = OriginSplitter(
        FORMATS["debezium-json"].make_source_extractor({}).find_origins,
        Assignment(rules=SyncRules(), table_indices={"orders": 0}),
    )
    assert [part.schema.names for _, part, _ in splitter.split(batch)] == [batch.schema.names]
    assert isinstance(batch, pa.RecordBatch)
