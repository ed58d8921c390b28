"""Defines the name of a table in a catalog.

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
