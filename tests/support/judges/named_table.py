"""A table for Paimon's Java: by its path, or by its name in a catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class NamedTable:
    """A table of a catalog, which Paimon opens with these options."""

    catalog: Mapping[str, str]
    database: str
    table: str


TablePath = Path | str | NamedTable


def table_location(path: TablePath) -> dict[str, Any]:
    """Return the warehouse, database and table of …/<database>.db/<table>, of a path or a URI."""
    if isinstance(path, NamedTable):
        names = {"database": path.database, "table": path.table}
        return {"warehouse": path.catalog["warehouse"], "catalog": dict(path.catalog), **names}
    if isinstance(path, str) and "://" in path:
        warehouse, database, table = path.rsplit("/", 2)
        return {"warehouse": warehouse, "database": database.removesuffix(".db"), "table": table}
    path = Path(path).resolve()
    folder = path.parent
    if folder.suffix != ".db":
        raise ValueError(f"{path} is not a table path: expected …/<database>.db/<table>")
    return {"warehouse": str(folder.parent), "database": folder.stem, "table": path.name}
