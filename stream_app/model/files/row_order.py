"""Defines the order into which a compaction sorts the rows of a table without keys.

Source: Paimon `spark/sort/TableSorter.java`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class OrderStrategy(enum.Enum):
    """The way to combine several columns into one order.

    ORDER: by the first column, equal values by the next. ZORDER and HILBERT: along a curve through
    all columns at once, so that rows with close values of any column are close together.
    """

    ORDER = "order"
    ZORDER = "zorder"
    HILBERT = "hilbert"


@dataclass(frozen=True, slots=True)
class RowOrder:
    """An order of rows.

    Attributes:
        columns: the columns, the most significant one first.
    """

    strategy: OrderStrategy
    columns: tuple[str, ...]
