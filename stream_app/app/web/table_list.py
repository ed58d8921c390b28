"""Selects and orders the tables of the list by their status alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from stream_app.app.inspect.table_status import TableStatus

TROUBLE, STALE, LAG, RUNS, NAME = "trouble", "stale", "lag", "runs", "name"
ORDERS = (TROUBLE, STALE, LAG, RUNS, NAME)
"""The orders of the list. The default is the first: tables with a problem, then others by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListChoice:
    """The filter and the order of the list.

    Attributes:
        text: a part of the tables' names, in upper or lower case.
        state: the state of the tables; empty for any state.
        order: one of `ORDERS`.
    """

    text: str = ""
    state: str = ""
    order: str = TROUBLE

    @classmethod
    def from_query(cls, query: Mapping[str, str]) -> ListChoice:
        """Return the choice of a page's query; an unknown order is the default."""
        order = query.get("sort", TROUBLE)
        return cls(
            text=query.get("q", "").strip(),
            state=query.get("state", "").strip(),
            order=order if order in ORDERS else TROUBLE,
        )

    def select(self, tables: Sequence[TableStatus]) -> list[TableStatus]:
        """Return the chosen tables in order, with unknown values last."""
        text = self.text.casefold()
        matching_tables = [
            status
            for status in tables
            if text in status.table.casefold() and self.state in ("", status.state)
        ]
        return sorted(matching_tables, key=self._key)

    def query(self, state: str) -> str:
        """Return the query of the same choice with another state; empty for the default choice."""
        order = "" if self.order == TROUBLE else self.order
        parameters = {"q": self.text, "state": state, "sort": order}
        return urlencode({key: value for key, value in parameters.items() if value})

    def _key(self, status: TableStatus) -> tuple[int, str]:
        age_s = status.changed_s if status.fresh_s is None else status.fresh_s
        rank = {
            TROUBLE: 0 if status.is_trouble else 1,
            STALE: _descending_key(age_s),
            LAG: _descending_key(status.lag),
            RUNS: _descending_key(status.sorted_runs),
            NAME: 0,
        }[self.order]
        return rank, status.table


def state_counts(tables: Sequence[TableStatus]) -> Sequence[tuple[str, int]]:
    """Return the number of tables in each occurring state, the most frequent first."""
    return Counter(status.state for status in tables).most_common()


def _descending_key(value: int | None) -> int:
    return 1 if value is None else -value
