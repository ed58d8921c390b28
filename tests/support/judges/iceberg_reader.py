"""Iceberg's readers as judges, in their own virtual environment: PyIceberg, and DuckDB 1.5.

The environment is made once in .venvs/iceberg from conf/requirements-iceberg.lock. This file is
the caller's side and, started by that environment's Python, the child that reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.support.judges.judge_process import REPO, JudgeProcess, serve, write_rows
from tests.support.judges.own_environment import python_of

LOCK_LIST = REPO / "conf" / "requirements-iceberg.lock"


class IcebergError(Exception):
    """An error of a reader, with the end of its traceback."""


class IcebergReader(JudgeProcess):
    """PyIceberg and DuckDB in a child process."""

    error = IcebergError

    def __init__(self) -> None:
        super().__init__(python_of("iceberg", LOCK_LIST))

    def read(
        self, folder: Path | str, *, snapshot: int | None = None, where: str | None = None
    ) -> pa.Table:
        """Return the rows by PyIceberg, of the latest version in a folder of metadata."""
        request = {"by": "pyiceberg", "snapshot": snapshot, "where": where}
        return self._rows({**request, "metadata": _newest(folder)})

    def read_by_duckdb(self, folder: Path | str) -> pa.Table:
        """Return the rows by DuckDB."""
        return self._rows({"by": "duckdb", "metadata": _newest(folder)})

    def read_by_name(self, catalog: str, uri: str, table: str) -> pa.Table:
        """Return the rows by PyIceberg, of a table in a catalog that a database has."""
        return self._rows({"by": "name", "catalog": catalog, "uri": uri, "table": table})

    def describe(self, folder: Path | str) -> dict[str, Any]:
        """Return what PyIceberg knows of a table."""
        return self._call({"by": "describe", "metadata": _newest(folder)})


def _newest(folder: Path | str) -> str:
    """Return the latest version's file in a folder of metadata."""
    version = (Path(folder) / "version-hint.text").read_text()
    return f"{folder}/v{version}.metadata.json"


# ------------------------------------------------------- the child, inside that environment


def _answer(request: Mapping[str, Any]) -> Mapping[str, Any]:
    return _READERS[request["by"]](request)


def _by_pyiceberg(request: Mapping[str, Any]) -> dict[str, Any]:
    from pyiceberg.table import StaticTable

    table = StaticTable.from_metadata(request["metadata"])
    chosen = {"row_filter": request["where"]} if request["where"] else {}
    write_rows(table.scan(snapshot_id=request["snapshot"], **chosen).to_arrow(), request["out"])
    return {}


def _by_name(request: Mapping[str, Any]) -> dict[str, Any]:
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog(request["catalog"], type="sql", uri=request["uri"])
    write_rows(catalog.load_table(request["table"]).scan().to_arrow(), request["out"])
    return {}


def _by_duckdb(request: Mapping[str, Any]) -> dict[str, Any]:
    import duckdb
    import duckdb_extension_avro
    import duckdb_extension_iceberg

    with duckdb.connect(config={"allow_unsigned_extensions": True}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for package in (duckdb_extension_avro, duckdb_extension_iceberg):
            [extension] = Path(package.__file__).parent.rglob("*.duckdb_extension")
            connection.execute(f"LOAD '{extension}'")
        query = f"SELECT * FROM iceberg_scan('{request['metadata']}')"
        write_rows(connection.execute(query).to_arrow_table(), request["out"])
    return {}


def _describe(request: Mapping[str, Any]) -> dict[str, Any]:
    from pyiceberg.table import StaticTable

    table = StaticTable.from_metadata(request["metadata"])
    schema = table.schema()
    return {
        "columns": {field.name: str(field.field_type) for field in schema.fields},
        "docs": {field.name: field.doc for field in schema.fields},
        "identifiers": sorted(schema.identifier_field_names()),
        "partitions": [field.name for field in table.spec().fields],
        "properties": table.properties,
        "references": {name: ref.snapshot_id for name, ref in table.refs().items()},
        "snapshots": [snapshot.snapshot_id for snapshot in table.metadata.snapshots],
    }


_READERS = {
    "pyiceberg": _by_pyiceberg,
    "name": _by_name,
    "duckdb": _by_duckdb,
    "describe": _describe,
}

if __name__ == "__main__":
    serve(lambda: _answer)
