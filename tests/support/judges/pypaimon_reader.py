"""PyPaimon as a second judge of tables, in its own virtual environment: it pins an older pyarrow.

The environment is made once in .venvs/pypaimon from conf/requirements-pypaimon.lock. This file is
the caller's side and, started by that environment's Python, the child that reads.

PyPaimon forgives more than Paimon's Java does: a table is right only when both read it. It has no
MULTISET and no 64-bit deletion vectors, and where it has to merge files it cuts TIMESTAMP(7..9) to
microseconds (compare by normal_rows.without_nanoseconds).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.support.judges.judge_process import (
    REPO,
    JudgeProcess,
    read_rows,
    serve,
    write_rows,
)
from tests.support.judges.named_table import NamedTable
from tests.support.judges.own_environment import python_of

LOCK_LIST = REPO / "conf" / "requirements-pypaimon.lock"


class PyPaimonError(Exception):
    """An error of PyPaimon, with the end of its traceback."""


class PyPaimonReader(JudgeProcess):
    """PyPaimon in a child process."""

    error = PyPaimonError

    def __init__(self) -> None:
        super().__init__(python_of("pypaimon", LOCK_LIST))

    def read(
        self, path: Path | str | NamedTable, *, columns: Sequence[str] | None = None,
        where: Mapping[str, Any] | None = None, options: Mapping[str, Any] | None = None,
    ) -> pa.Table:  # fmt: skip
        """Read a batch. `where` maps a column to the JSON value it equals (None: is null)."""
        request = {
            **_place(path), "where": dict(where or {}),
            "columns": None if columns is None else list(columns),
            "options": {key: str(value) for key, value in (options or {}).items()},
        }  # fmt: skip
        return self._rows(request)

    def follow(self, path: Path | str) -> list[pa.Table]:
        """Return the changes of each snapshot that has any, with their kinds in _row_kind."""
        out = self._folder / "changes.arrow"
        answer = self._call({"follow": str(Path(path).resolve()), "out": str(out)})
        return [read_rows(f"{out}{number}") for number in range(answer["plans"])]

    def options(self) -> dict[str, str]:
        """Return the keys of PyPaimon's published CoreOptions, and the type of each value."""
        answer = self._call({"core_options": True})
        return {str(key): str(kind) for key, kind in answer["options"].items()}

    def read_by_rust(self, path: Path | str) -> pa.Table:
        """Read a batch by Paimon's library in Rust, which is a wheel of its own."""
        return self._rows({"by_rust": str(Path(path).resolve())})

    def follow_by_rust(self, path: Path | str) -> list[pa.Table]:
        """Follow as `follow` does, by Paimon's library in Rust; the kinds are in rowkind."""
        out = self._folder / "changes.arrow"
        answer = self._call({"follow_by_rust": str(Path(path).resolve()), "out": str(out)})
        return [read_rows(f"{out}{number}") for number in range(answer["plans"])]

    def write_by_rust(self, path: Path | str, rows: pa.Table) -> None:
        """Write a batch into a table, and commit it, by Paimon's library in Rust."""
        rows_file = self._folder / "rows.arrow"
        write_rows(rows, rows_file)
        self._call({"write_by_rust": str(Path(path).resolve()), "rows_file": str(rows_file)})

    def rust_names_with(self, word: str) -> list[str]:
        """Return the names of the library in Rust that contain this text."""
        return self._call({"rust_names_with": word})["names"]

    def names_with(self, path: Path | str, word: str) -> list[str]:
        """Return the public names of tables, builders, writers and commands with this text."""
        return self._call({"names_with": word, "path": str(Path(path).resolve())})["names"]

    def write(
        self, path: Path | str, rows: pa.Table, *, primary_keys: Sequence[str] = (),
        options: Mapping[str, Any] | None = None, postpones: bool = True,
    ) -> None:  # fmt: skip
        """Write and commit a batch; create the table of the rows' columns if it is missing.

        With bucket = -2 the rows wait, or go to real buckets.
        """
        rows_file = self._folder / "rows.arrow"
        write_rows(rows, rows_file)
        request = {
            "path": str(Path(path).resolve()), "rows_file": str(rows_file),
            "primary_keys": list(primary_keys), "postpones": postpones,
            "options": {key: str(value) for key, value in (options or {}).items()},
        }  # fmt: skip
        self._call(request)

    def update(self, path: Path | str, rows: pa.Table) -> None:
        """Commit new values of some columns, for rows by their number in _ROW_ID."""
        rows_file = self._folder / "rows.arrow"
        write_rows(rows, rows_file)
        self._call({"update": str(Path(path).resolve()), "rows_file": str(rows_file)})

    def delete(self, path: Path | str, row_ids: Sequence[int]) -> None:
        """Delete rows by their numbers, with deletion vectors."""
        self._call({"delete": str(Path(path).resolve()), "row_ids": list(row_ids)})


def _place(path: Path | str | NamedTable) -> dict[str, Any]:
    if isinstance(path, NamedTable):
        return {"catalog": dict(path.catalog), "name": f"{path.database}.{path.table}"}
    return {"path": str(Path(path).resolve())}


# ------------------------------------------------------- the child, inside that environment


def _answer(request: Mapping[str, Any]) -> dict[str, Any]:
    for word, answer in _ANSWERS.items():
        if word in request:
            return answer(request) or {}
    _write(request) if "rows_file" in request else _read(request)
    return {}


def _table(path: Path) -> Any:
    from pypaimon import CatalogFactory

    catalog = CatalogFactory.create({"warehouse": str(path.parents[1])})
    return catalog.get_table(f"{path.parent.stem}.{path.name}")


def _named(request: Mapping[str, Any]) -> Any:
    from pypaimon import CatalogFactory

    return CatalogFactory.create(request["catalog"]).get_table(request["name"])


def _read(request: Mapping[str, Any]) -> None:
    table = _named(request) if "catalog" in request else _table(Path(request["path"]))
    if request["options"]:
        table = table.copy(request["options"])
    builder = table.new_read_builder()
    if request["columns"] is not None:
        builder = builder.with_projection(request["columns"])
    if request["where"]:
        of_all_columns = table.new_read_builder().new_predicate_builder()
        builder = builder.with_filter(_predicate(of_all_columns, request["where"]))
    write_rows(builder.new_read().to_arrow(builder.new_scan().plan().splits()), request["out"])


def _rust_table(path: Path) -> Any:
    from pypaimon_rust.datafusion import PaimonCatalog

    catalog = PaimonCatalog({"warehouse": str(path.parents[1])})
    return catalog.get_table(f"{path.parent.stem}.{path.name}")


def _read_by_rust(path: Path, out: str) -> None:
    builder = _rust_table(path).new_read_builder()
    batches = builder.new_read().read(builder.new_scan().plan().splits())
    write_rows(pa.Table.from_batches(batches), out)


def _follow_by_rust(path: Path, out: str) -> int:
    """Write a file for each snapshot with changes; return how many."""
    table, plans = _rust_table(path), 0
    for snapshot in range(1, table.latest_snapshot().id() + 1):
        builder = table.new_read_builder().with_include_row_kind(True)
        splits = builder.new_incremental_scan(snapshot - 1, snapshot, "auto").plan().splits()
        if splits and (batches := builder.new_read().read(splits)):
            write_rows(pa.Table.from_batches(batches), f"{out}{plans}")
            plans += 1
    return plans


def _write_by_rust(path: Path, rows: pa.Table) -> None:
    builder = _rust_table(path).new_batch_write_builder()
    write = builder.new_write()
    for batch in rows.to_batches():
        write.write_arrow(batch)
    builder.new_commit().commit(write.prepare_commit())


def _rust_names_with(word: str) -> list[str]:
    from pypaimon_rust import datafusion

    objects = [datafusion, *vars(datafusion).values()]
    names = {name for object_ in objects for name in dir(object_) if not name.startswith("_")}
    return sorted(name for name in names if word in name.lower())


def _core_options() -> dict[str, str]:
    from pypaimon.common.options.config_option import ConfigOption
    from pypaimon.common.options.core_options import CoreOptions

    options = [option for option in vars(CoreOptions).values() if isinstance(option, ConfigOption)]
    return {
        option.key(): getattr(option.get_clazz(), "__name__", str(option.get_clazz()))
        for option in options
    }


async def _follow(request: Mapping[str, Any]) -> int:
    """Write a file for each snapshot with changes; return how many."""
    from pypaimon.read.streaming_table_scan import AsyncStreamingTableScan

    table = _table(Path(request["follow"]))
    latest = table.snapshot_manager().get_latest_snapshot().id
    reader = table.new_stream_read_builder().with_include_row_kind().new_read()
    scan = AsyncStreamingTableScan(
        table, poll_interval_ms=60_000, prefetch_enabled=False, diff_threshold=10**6
    )
    scan.next_snapshot_id = 1
    plans, stream = 0, scan.stream()
    while scan.next_snapshot_id <= latest:
        coming = asyncio.ensure_future(anext(stream))
        while not coming.done() and scan.next_snapshot_id <= latest:
            await asyncio.sleep(0)
        if not coming.done():  # the last snapshots had no changes; it waits for the next one
            coming.cancel()
            break
        if splits := (await coming).splits():
            write_rows(reader.to_arrow(splits), f"{request['out']}{plans}")
            plans += 1
    return plans


def _names_with(request: Mapping[str, Any]) -> list[str]:
    from pypaimon.cli import cli_table
    from pypaimon.write import table_commit, table_write

    table, word = _table(Path(request["path"])), request["names_with"]
    objects = [table, cli_table, table.new_batch_write_builder(), table.new_stream_write_builder()]
    for module in (table_commit, table_write):
        objects += [
            attribute
            for name, attribute in vars(module).items()
            if name.startswith(("Batch", "Stream"))
        ]
    names = {name for object_ in objects for name in dir(object_) if not name.startswith("_")}
    return sorted(name for name in names if word in name.lower())


def _write(request: Mapping[str, Any]) -> None:
    from pypaimon import CatalogFactory, Schema

    path = Path(request["path"])
    name = f"{path.parent.stem}.{path.name}"
    catalog = CatalogFactory.create({"warehouse": str(path.parents[1])})
    rows = read_rows(request["rows_file"])
    if not path.exists():
        catalog.create_database(path.parent.stem, True)
        schema = Schema.from_pyarrow_schema(
            rows.schema, primary_keys=request["primary_keys"], options=request["options"]
        )
        catalog.create_table(name, schema, False)
    table = catalog.get_table(name)
    builder = (
        table.new_batch_write_builder()
        if request["postpones"]
        else table.new_postpone_fixed_bucket_write_builder()
    )
    write, commit = builder.new_write(), builder.new_commit()
    write.write_arrow(rows)
    commit.commit(write.prepare_commit())
    write.close()
    commit.close()


def _change(request: Mapping[str, Any]) -> None:
    table = _table(Path(request.get("update") or request["delete"]))
    builder = table.new_batch_write_builder()
    update, commit = builder.new_update(), builder.new_commit()
    if "update" in request:
        rows = read_rows(request["rows_file"])
        update.with_update_type([name for name in rows.column_names if name != "_ROW_ID"])
        commit.commit(update.update_by_arrow_with_row_id(rows))
    else:
        commit.commit(update.delete_by_row_id(request["row_ids"]))
    commit.close()


def _predicate(builder: Any, where: Mapping[str, Any]) -> Any:
    return builder.and_predicates(
        [
            builder.is_null(column) if value is None else builder.equal(column, value)
            for column, value in where.items()
        ]
    )


_ANSWERS: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any] | None]] = {
    "follow": lambda request: {"plans": asyncio.run(_follow(request))},
    "core_options": lambda _: {"options": _core_options()},
    "by_rust": lambda request: _read_by_rust(Path(request["by_rust"]), request["out"]),
    "follow_by_rust": lambda request: {
        "plans": _follow_by_rust(Path(request["follow_by_rust"]), request["out"])
    },
    "write_by_rust": lambda request: _write_by_rust(
        Path(request["write_by_rust"]), read_rows(request["rows_file"])
    ),
    "rust_names_with": lambda request: {"names": _rust_names_with(request["rust_names_with"])},
    "names_with": lambda request: {"names": _names_with(request)},
    "update": _change,
    "delete": _change,
}

if __name__ == "__main__":
    serve(lambda: _answer)
