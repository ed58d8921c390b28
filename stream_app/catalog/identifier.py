"""Defines the name of a table in a catalog, and finds the name in the path of its folder.

Source: Paimon `catalog/Identifier.java`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Identifier:
    """A table's database and name."""

    database: str
    table: str

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"


def name_in_path(path: str) -> str:
    """Return the name of the table in this folder, without its database."""
    return path.rstrip("/").rpartition("/")[2]
