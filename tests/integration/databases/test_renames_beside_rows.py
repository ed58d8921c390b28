"""A whole job follows the renames whose statements Canal and Maxwell send beside the rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.databases.database_harness import DatabaseHarness, database
from tests.support.messages.database_topic import Message

__all__ = ["database"]
pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]
Row = Mapping[str, Any]


def _canal(row: Row) -> Message:
    document = {"data": [{name: str(value) for name, value in row.items()}], "database": "shop",
                "es": 1, "id": 1, "isDdl": False, "old": None, "pkNames": ["id"], "sql": "",
                "mysqlType": dict.fromkeys(row, "varchar(9)") | {"id": "int"},
                "table": "orders", "ts": 1, "type": "INSERT"}  # fmt: skip
    return None, json.dumps(document).encode()


def _canal_ddl(sql: str) -> Message:
    document = {"data": None, "database": "shop", "es": 1, "id": 1, "isDdl": True, "old": None,
                "mysqlType": None, "pkNames": None, "sql": sql, "sqlType": None,
                "table": "orders", "ts": 1, "type": "ALTER"}  # fmt: skip
    return None, json.dumps(document).encode()


def _maxwell(row: Row) -> Message:
    key = {"database": "shop", "table": "orders", "pk.id": row["id"]}
    document = {"database": "shop", "table": "orders", "type": "insert", "ts": 1, "xid": 1,
                "commit": True, "data": row}  # fmt: skip
    return json.dumps(key).encode(), json.dumps(document).encode()


def _maxwell_ddl(sql: str) -> Message:
    document = {"type": "table-alter", "database": "shop", "table": "orders", "old": {}, "def": {},
                "ts": 1, "sql": sql}  # fmt: skip
    return None, json.dumps(document).encode()


@pytest.mark.parametrize(
    ("name", "row", "ddl"),
    [("canal-json", _canal, _canal_ddl), ("maxwell-json", _maxwell, _maxwell_ddl)],
)
def test_a_rename_keeps_the_values_of_the_column(
    database: DatabaseHarness, name: str, row: Any, ddl: Any
) -> None:
    database.configure({"options.bucket": 1}, source={"format": name})
    database.send("orders", [row({"id": 1, "note": "one"})], is_new=True)
    database.run()
    rename_statements = [ddl("/* why */ ALTER TABLE `orders` CHANGE `note` `remark` varchar(20)")]
    database.send("orders", [*rename_statements, row({"id": 2, "remark": "two"})])
    assert "column 'note' is now 'remark'" in database.run().output
    database.send("orders", [row({"id": 3, "note": "late"}), row({"id": 4, "remark": "four"})])
    database.run()
    rows = {int(row["id"]): row for row in database.rows("orders")}
    assert {key: row["remark"] for key, row in rows.items()} == {
        1: "one", 2: "two", 3: "late", 4: "four",
    }  # fmt: skip
    assert all(row.keys() == {"id", "remark"} for row in rows.values())
    database.tool("check", "--conf", str(database.conf))
