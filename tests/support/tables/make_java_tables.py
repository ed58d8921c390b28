"""Makes tests/fixtures/java_tables: small tables written by Paimon's Java, and the rows they hold.

    python -m tests.support.tables.make_java_tables

Each table lies in java_tables/java.db/<name>; java_tables/<name>.json tells, in the JSON of
json_value, what a reader must find: {"rows": […], "changelog": [[snapshot, kind, row], …]}. The
rows come from the model below, not from a reader. Another run changes only uuids and times.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.support.judges.normal_rows import Row, json_value
from tests.support.judges.paimon_java import PaimonJava, RowOfKind

TABLES = Path(__file__).resolve().parents[2] / "fixtures" / "java_tables"
LEVEL_0_ONLY = {"write-only": True}

SCALAR_COLUMNS = [
    ("dt", "STRING NOT NULL"), ("id", "BIGINT NOT NULL"),
    ("a_boolean", "BOOLEAN"), ("a_tinyint", "TINYINT"), ("a_smallint", "SMALLINT"),
    ("an_int", "INT"), ("a_bigint", "BIGINT"), ("a_float", "FLOAT"), ("a_double", "DOUBLE"),
    ("a_decimal9", "DECIMAL(9, 2)"), ("a_decimal18", "DECIMAL(18, 3)"),
    ("a_decimal38", "DECIMAL(38, 10)"), ("a_char", "CHAR(5)"), ("a_varchar", "VARCHAR(20)"),
    ("a_string", "STRING"), ("a_binary", "BINARY(4)"), ("bytes", "BYTES"), ("a_date", "DATE"),
    ("a_time", "TIME(3)"), ("a_timestamp0", "TIMESTAMP(0)"), ("a_timestamp3", "TIMESTAMP(3)"),
    ("a_timestamp6", "TIMESTAMP(6)"), ("a_timestamp9", "TIMESTAMP(9)"),
    ("an_ltz3", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
    ("an_ltz6", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
]  # fmt: skip


def scalar_row(dt: str, number: int) -> Row:
    """Return a row whose values all depend on `number`; every third has nulls but for its key."""
    if number % 3 == 2:
        return {"dt": dt, "id": number} | {name: None for name, _ in SCALAR_COLUMNS[2:]}
    sign = -1 if number % 2 else 1
    fraction = f"{number:03d}"
    return {
        "dt": dt, "id": number, "a_boolean": number % 2 == 0, "a_tinyint": sign * 127,
        "a_smallint": sign * 32_767, "an_int": sign * 2_147_483_647,
        "a_bigint": sign * 9_223_372_036_854_775_807, "a_float": sign * 0.15625,
        "a_double": (0.1, "NaN", float("inf"), -1e300)[number % 4],
        "a_decimal9": Decimal("1234567.89") * sign,
        "a_decimal18": Decimal("123456789012345.678") * sign,
        "a_decimal38": Decimal(f"{'-' if sign < 0 else ''}1234567890123456789012345678.0123456789"),
        "a_char": "abc", "a_varchar": f"v{number}", "a_string": f"Zoë 😀 {number} " + "x" * 30,
        "a_binary": bytes([0, 255, number, 1]), "bytes": b"" if number == 4 else b"\x00\xff",
        "a_date": "1969-12-31" if sign < 0 else "2024-02-29",
        "a_time": f"12:34:56.7{number % 9 + 1}",
        "a_timestamp0": "1969-12-31T23:59:59", "a_timestamp3": "2024-01-02T03:04:05.678",
        "a_timestamp6": f"2024-01-02T03:04:05.{fraction}901",
        "a_timestamp9": f"1955-11-05T06:15:00.{fraction}901234",
        "an_ltz3": "2024-01-02T03:04:05.678Z", "an_ltz6": "1969-12-31T23:59:59.999999Z",
    }  # fmt: skip


class TableMaker:
    """A writer of one table by commits, with the rows that the table must hold by then."""

    def __init__(self, java: PaimonJava, name: str, columns: Sequence[tuple[str, str]],
                 primary_keys: Sequence[str], **create: Any) -> None:  # fmt: skip
        self.path = TABLES / "java.db" / name
        self._java, self._primary_keys = java, primary_keys
        self._rows: dict[tuple[Any, ...], Row] = {}
        self._changes: list[tuple[int, str, Row]] = []
        self._identifier = 0
        java.create(self.path, columns, primary_keys=primary_keys, **create)

    def commit(self, *changes: RowOfKind) -> None:
        """Make a commit that stays in level 0."""
        self._identifier += 1
        snapshot = self._java.write(
            self.path, changes, identifier=self._identifier, options=LEVEL_0_ONLY
        )
        assert snapshot is not None
        for kind, row in changes:
            self._changes.append((snapshot, kind, dict(row)))
            key = tuple(row[column] for column in self._primary_keys)
            if kind in ("+I", "+U"):
                self._rows[key] = dict(row)
            else:
                self._rows.pop(key, None)

    def compact(self) -> None:
        self._java.compact(self.path)

    def save_expected(self, *, changelog: bool) -> None:
        expected: dict[str, Any] = {"rows": [json_value(row) for row in self._rows.values()]}
        if changelog:
            expected["changelog"] = [[s, kind, json_value(row)] for s, kind, row in self._changes]
        lines = json.dumps(expected, ensure_ascii=False, indent=1)
        (TABLES / f"{self.path.name}.json").write_text(lines + "\n", encoding="utf-8")


def make_scalars(java: PaimonJava) -> None:
    """Make every scalar type in two partitions of two buckets; compacted and level-0 files."""
    table = TableMaker(
        java, "scalars", SCALAR_COLUMNS, ["dt", "id"], partition_keys=["dt"], options={"bucket": 2}
    )
    first, second = "2024-01-01", "a b/c=é"
    table.commit(*(("+I", scalar_row(dt, number)) for dt in (first, second) for number in range(8)))
    table.commit(*(("-D", scalar_row(first, number)) for number in (1, 2)))
    table.compact()
    table.commit(
        ("+U", scalar_row(first, 3) | {"a_string": "updated"}), ("+I", scalar_row(first, 9))
    )
    table.commit(("-D", scalar_row(second, 0)), ("-D", scalar_row(second, 6)))
    table.save_expected(changelog=False)


def make_composite_key(java: PaimonJava) -> None:
    """Make keys of strings that are empty, long, share prefixes, or lie outside ASCII."""
    columns = [("country", "STRING NOT NULL"), ("code", "STRING NOT NULL"), ("value", "INT")]
    table = TableMaker(java, "composite_key", columns, ["country", "code"], options={"bucket": 2})
    keys = ["", "a", "ab", "a" * 7, "a" * 8, "b" * 40, "Ä", "日本", "😀", "\uffee"]
    rows = [{"country": country, "code": code} for country in keys[::2] for code in keys]
    table.commit(*(("+I", row | {"value": number}) for number, row in enumerate(rows)))
    table.compact()
    table.commit(*(("-D", row | {"value": None}) for row in rows[::3]))
    table.commit(*(("+U", row | {"value": -1}) for row in rows[::4]))
    table.save_expected(changelog=False)


def make_changelog_input(java: PaimonJava) -> None:
    """Make a table with changelog-producer = input: several changes of a key in one commit."""
    columns = [("k", "INT NOT NULL"), ("v", "STRING")]
    options = {"bucket": 1, "changelog-producer": "input"}
    table = TableMaker(java, "changelog_input", columns, ["k"], options=options)
    table.commit(*(("+I", {"k": k, "v": f"v{k}"}) for k in range(4)))
    table.commit(
        ("-U", {"k": 0, "v": "v0"}), ("+U", {"k": 0, "v": "w0"}), ("-D", {"k": 1, "v": "v1"})
    )
    table.compact()
    table.commit(
        ("-U", {"k": 0, "v": "w0"}), ("+U", {"k": 0, "v": None}), ("-D", {"k": 0, "v": None}),
        ("+I", {"k": 1, "v": "again"}),
    )  # fmt: skip
    table.save_expected(changelog=True)


MAKERS: tuple[Callable[[PaimonJava], None], ...] = (
    make_scalars, make_composite_key, make_changelog_input,
)  # fmt: skip


def main() -> None:
    shutil.rmtree(TABLES, ignore_errors=True)
    with PaimonJava() as java:
        for make in MAKERS:
            make(java)
    size = sum(file.stat().st_size for file in TABLES.rglob("*") if file.is_file())
    print(f"made {len(MAKERS)} tables in {TABLES}, {size // 1024} KB")


if __name__ == "__main__":
    main()
