"""Decides whether a job may make another table: the names are those of the messages' producers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TableLimit:
    """So many tables a job makes."""

    most: int

    def has_room(self, name: str, known: Collection[str], refused: int) -> bool:
        """Whether the job has a table, or may make it.

        Args:
            known: names of the tables that it has, or cannot make for now.
            refused: source tables of which no table could be made; these count too.
        """
        return name in known or len(known) + refused < self.most

    @property
    def reason(self) -> str:
        """Why messages of another source table are set aside."""
        return (
            f"the job has {self.most} tables, the most that sync.max-tables allows; to fix: raise "
            "it, or leave tables out by sync.excluding-tables"
        )
