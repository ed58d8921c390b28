"""Runs Paimon's own Java library as a judge of tables, in one JVM for the test session.

The library runs in paimon_java/PaimonServer.java, compiled once into .jars/paimon-java. A table is
named by its path …/<database>.db/<table>; "<table>$files" and the like are system tables. Written
and read rows are dicts in the form of normal_rows.py.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from tests.support.judges.line_server import LineServer
from tests.support.judges.named_table import NamedTable, TablePath, table_location
from tests.support.judges.normal_rows import (
    Row,
    decode_json_column,
    json_value,
    normal_rows,
    normal_value,
    sorted_rows,
    untag,
)
from tests.support.judges.paimon_jvm import (
    JVM_OPTIONS,
    class_path_of_paimon,
    compiled_folder,
    java_tool,
)

__all__ = [
    "JVM_OPTIONS",
    "Changelog",
    "PaimonError",
    "PaimonJava",
    "Plan",
    "ReadResult",
    "class_path_of_paimon",
    "compiled_folder",
    "java_tool",
    "normal_rows",
    "normal_value",
    "sorted_rows",
    "table_location",
]  # fmt: skip

SOURCES = Path(__file__).with_name("paimon_java")

RowOfKind = tuple[str, Mapping[str, Any]]  # ("+I", {"k": 1})


class PaimonError(Exception):
    """An error of Paimon: its class and message, and those of the root cause."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        self.class_name: str = error["class"]
        self.root_class: str = error["root_class"]
        self.root_message: str = error["root_message"] or ""
        where = "\n    at ".join(error["trace"])
        super().__init__(
            f"{self.class_name}: {error['message']}\n"
            f"  root cause: {self.root_class}: {self.root_message}\n    at {where}"
        )


@dataclass(frozen=True, kw_only=True)
class ReadResult:
    """A batch read: rows, and the planned splits (bucket, file_count, raw_convertible, …)."""

    rows: list[Row]
    splits: list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What one plan of a streaming read gave: changes as (kind, row), in reading order."""

    snapshot: int
    changes: list[tuple[str, Row]] = field(default_factory=list)


Changelog = list[Plan]


class PaimonJava:
    """A JVM that starts at once; close it, or use it in `with`. Calls of threads take turns.

    Args:
        jars: file systems of Paimon, for instance.
    """

    def __init__(self, jars: Sequence[Path] = ()) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="paimon-java-")
        class_path = class_path_of_paimon()
        classes = compiled_folder(SOURCES, class_path)
        options = [*JVM_OPTIONS, f"-Djava.io.tmpdir={self._directory.name}"]
        class_path = ":".join(map(str, [classes, *jars, class_path]))
        self._server = LineServer([java_tool("java"), *options, "-cp", class_path, "PaimonServer"])

    def __enter__(self) -> PaimonJava:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._server.close()
        self._directory.cleanup()

    def create(
        self, path: TablePath, columns: Sequence[tuple[str, Any]], *,
        primary_keys: Sequence[str] = (), partition_keys: Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """Create a table; a column is (name, "BIGINT NOT NULL") or, nested, the type in JSON."""
        self._call(
            "create", path, columns=list(columns), primary_keys=list(primary_keys),
            partition_keys=list(partition_keys), options=_texts(options),
        )  # fmt: skip

    def list_tables(self, catalog: Mapping[str, str]) -> dict[str, list[str]]:
        """Return the tables of each database of a catalog."""
        return self.ask("list_tables", catalog=dict(catalog), warehouse=catalog["warehouse"])

    def read(
        self, path: TablePath, *, columns: Sequence[str] | None = None,
        where: Mapping[str, Any] | None = None, snapshot: int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> list[Row]:  # fmt: skip
        """Return the rows of a batch read. `where` maps a column to a value (=), None, a list (IN),
        or {"op": "<", "value": v}; it prunes partitions, buckets and files by their statistics.
        """
        return self.read_splits(
            path, columns=columns, where=where, snapshot=snapshot, options=options
        ).rows

    def read_splits(
        self, path: TablePath, *, columns: Sequence[str] | None = None,
        where: Mapping[str, Any] | None = None, snapshot: int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> ReadResult:  # fmt: skip
        """As read, with the splits."""
        with self._file("rows") as out:
            answer = self._call(
                "read", path, out=out, snapshot=snapshot, options=_texts(options),
                columns=None if columns is None else list(columns),
                filter=None if where is None else json_value(dict(where)),
            )  # fmt: skip
            rows = [row for _, row in _rows(out, answer["columns"], head=0)]
        return ReadResult(rows=rows, splits=untag(answer["splits"]))

    def changelog(
        self, path: TablePath, *, from_snapshot: int = 1,
        options: Mapping[str, Any] | None = None, latest_schema: bool = False,
    ) -> Changelog:  # fmt: skip
        """Follow a table from a snapshot until nothing more comes. Other starts by
        options, as {"scan.mode": "latest-full"}: then from_snapshot is not used; {"consumer-id":
        "c"} goes on where the consumer is, and writes its progress at the end. All rows have the
        columns of the first snapshot's schema, or, as in Flink's streaming jobs, of the latest.
        """
        scan = {"scan.mode": "from-snapshot", "scan.snapshot-id": from_snapshot}
        options = dict(options or {})
        if "scan.mode" not in options:
            options |= scan
        with self._file("rows") as out:
            latest = {"latest_schema": True} if latest_schema else {}
            answer = self._call("changelog", path, out=out, options=_texts(options), **latest)
            plans = {snapshot: Plan(snapshot=snapshot) for snapshot in answer["plans"]}
            for (snapshot, kind), row in _rows(out, answer["columns"], head=2):
                plans[snapshot].changes.append((kind, row))
        return list(plans.values())

    def write(
        self, path: TablePath, rows: Iterable[RowOfKind], *, identifier: int,
        commit_user: str = "paimon-java", wait_compaction: bool = True, recover: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> int | None:  # fmt: skip
        """One streaming commit by a new writer; returns the latest snapshot. It compacts as the
        table's options say, {"write-only": True} stops that. `recover` commits by
        filterAndCommit: an identifier that is committed already is left out."""
        with self._file("input") as lines:
            _write_rows(lines, rows)
            answer = self._call(
                "write", path, rows=lines, identifier=identifier, commit_user=commit_user,
                wait_compaction=wait_compaction, recover=recover, options=_texts(options),
            )  # fmt: skip
        return answer["snapshot"]

    def batch_write(
        self, path: TablePath, rows: Iterable[RowOfKind], *, overwrite: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> int | None:  # fmt: skip
        """Write one batch commit (random user, largest identifier); overwrite replaces all rows."""
        with self._file("input") as lines:
            _write_rows(lines, rows)
            answer = self._call(
                "batch_write", path, rows=lines, overwrite=overwrite, options=_texts(options)
            )
        return answer["snapshot"]

    def delete_rows(self, path: TablePath, positions: Mapping[str, Iterable[int]]) -> int | None:
        """One commit that deletes rows of an append table, by data file and place in it; returns
        the latest snapshot."""
        places = {name: [int(row) for row in rows] for name, rows in positions.items()}
        return self._call("delete_rows", path, deleted=places, options={})["snapshot"]

    def hashes(self, path: TablePath) -> dict[tuple[str, int], list[int]]:
        """Return partition's folder and bucket → hashes of its keys in order, by Paimon's index."""
        buckets = self._call("hashes", path, options={})["buckets"]
        assert all(bucket["row_count"] == len(bucket["hashes"]) for bucket in buckets)
        return {(bucket["partition"], bucket["bucket"]): bucket["hashes"] for bucket in buckets}

    def compact(
        self,
        path: TablePath,
        *,
        full: bool = True,
        options: Mapping[str, Any] | None = None,
    ) -> int | None:
        """Compact every bucket by Paimon and commit; return the latest snapshot."""
        return self._call("compact", path, full=full, options=_texts(options))["snapshot"]

    def expire(
        self,
        path: TablePath,
        *,
        retain_max: int = 1,
        retain_min: int = 1,
        time_retained_ms: int = 0,
    ) -> int:
        """Expire snapshots by Paimon; return how many."""
        return self._expire(
            path, retain_max=retain_max, retain_min=retain_min, time_ms=time_retained_ms
        )

    def expire_by_options(self, path: TablePath, options: Mapping[str, Any]) -> int:
        """Expire snapshots and changelogs by Paimon, as the table's options and these say."""
        return self._expire(path, by_options=True, options=_texts(options))

    def _expire(self, path: TablePath, **options: Any) -> int:
        usual = {"retain_max": 1, "retain_min": 1, "time_ms": 0, "by_options": False, "options": {}}
        return self._call("expire", path, **{**usual, **options})["expired"]

    def alter(self, path: TablePath, *changes: tuple[str, ...]) -> None:
        """Change columns: ("add", name, type), ("type", name, type), ("rename", old, new),
        ("drop", name), ("default", name, text), or ("option", key, value)."""
        self._call("alter", path, changes=[list(change) for change in changes])

    def tag(self, path: TablePath, name: str, snapshot: int) -> None:
        """Name a snapshot by Paimon."""
        self._call("tag", path, name=name, snapshot=snapshot, options={})

    def types(self, path: TablePath) -> list[tuple[str, str]]:
        """Return the columns of a table, or of "<table>$<system table>", and their types in SQL."""
        return [(name, text) for name, text in self._call("types", path, options={})["types"]]

    def adopt(self, table: NamedTable, folder: str | None = None) -> None:
        """Register a table in its catalog: that of a folder, or that where the name points to."""
        self._call("adopt", table, folder=folder, options={})

    def comments(self, path: TablePath) -> dict[str, str | None]:
        """Return the comment of each column, and with the key "" that of the table."""
        comments: dict[str, str | None] = self._call("comments", path, options={})
        return comments

    def collect_statistics(self, path: TablePath) -> None:
        """One commit of statistics: 6 rows of 100 bytes, and of the first column."""
        self._call("statistics", path, options={})

    def statistics(self, path: TablePath) -> dict[str, Any]:
        """Return the newest statistics as Java understands them: snapshot, schema, rows, bytes, and
        columns, each with min, max, id, distinct, nulls, average, longest; {}: there are none.
        """
        return untag(self._call("column_statistics", path, options={}))

    def branch(self, path: TablePath, name: str, tag: str) -> None:
        """Make a branch of a tag by Paimon; "<table>$branch_<name>" reads and writes it."""
        self._call("branch", path, name=name, tag=tag, options={})

    def roll_back(
        self, path: TablePath, *, snapshot: int | None = None, tag: str | None = None
    ) -> int | None:
        """Roll back to a snapshot or a tag by Paimon; return the latest snapshot."""
        answer = self._call("rollback", path, snapshot=snapshot, tag=tag, options={})
        return answer["snapshot"]

    def snapshots(self, path: TablePath) -> list[dict[str, Any]]:
        """Return every snapshot as Paimon reads it, in the keys of the snapshot file, by id."""
        snapshots = self._call("snapshots", path)["snapshots"]
        return sorted(snapshots, key=lambda snapshot: snapshot["id"])

    def files(
        self, path: TablePath, *, snapshot: int | None = None, kind: str = "all"
    ) -> list[dict[str, Any]]:
        """Return the files of a snapshot (kind "all": live ones; "delta": its changes;
        "changelog"): file_name, level, row_count, delete_row_count, min/max_sequence_number,
        min/max_key, partition, bucket, total_buckets, kind (ADD, DELETE), file_source, schema_id,
        file_size.
        """
        return untag(self._call("files", path, snapshot=snapshot, kind=kind)["files"])

    def options(
        self, texts: Iterable[tuple[str, str]] = ()
    ) -> tuple[dict[str, dict[str, Any]], list[str | None]]:
        """Return every option of CoreOptions by key (type, default, older_keys, is_fixed), and what
        Paimon reads from each (key, text): bytes and milliseconds as numbers, None when it refuses.
        """
        answer = self.ask("options", texts=[list(pair) for pair in texts])
        return {option["key"]: option for option in answer["options"]}, answer["values"]

    def _call(self, command: str, path: TablePath, **arguments: Any) -> Any:
        return self.ask(command, **table_location(path), **arguments)

    def ask(self, command: str, **arguments: Any) -> Any:
        """Return the answer to a request of PaimonServer.java that needs no table."""
        answer = self._server.call({"command": command, **arguments})
        if "error" in answer:
            raise PaimonError(answer["error"])
        return answer

    @contextlib.contextmanager
    def _file(self, name: str) -> Iterator[str]:
        descriptor, path = tempfile.mkstemp(prefix=name, dir=self._directory.name)
        os.close(descriptor)
        try:
            yield path
        finally:
            Path(path).unlink()


def _texts(options: Mapping[str, Any] | None) -> dict[str, str]:
    """Return options as Paimon's texts: true for True."""
    return {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in (options or {}).items()
    }


def _write_rows(path: str, rows: Iterable[RowOfKind]) -> None:
    with Path(path).open("w", encoding="utf-8") as lines:
        for kind, row in rows:
            lines.write(json.dumps([kind, json_value(dict(row))]) + "\n")


def _rows(
    path: str, columns: Sequence[Sequence[str]], *, head: int
) -> Iterator[tuple[list[Any], Row]]:
    """Yield each line of a file: its `head` leading values as they are, then its columns."""
    names = [name for name, _ in columns]
    converters = [
        (i, convert)
        for i, (_, form) in enumerate(columns)
        if (convert := decode_json_column(form)) is not None
    ]
    with Path(path).open("rb") as lines:
        for line in lines:
            values = orjson.loads(line)
            leading, values = values[:head], values[head:]
            for i, convert in converters:
                if values[i] is not None:
                    values[i] = convert(values[i])
            yield leading, dict(zip(names, values, strict=True))
