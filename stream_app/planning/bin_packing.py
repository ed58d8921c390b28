"""Items in their order → bins of about equal weight.

The files of a compaction are packed by other rules: see `append_compaction.pack`, whose bins are
full only beyond the target and whose items come by size.

Source: Paimon `utils/BinPacking.java#packForOrdered`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

_T = TypeVar("_T")


def pack_in_order(
    items: Iterable[_T], weight_of: Callable[[_T], int], target: int
) -> list[list[_T]]:
    """Bins of neighbours that weigh no more than `target`, unless one item alone does."""
    bins: list[list[_T]] = []
    weight = 0
    for item in items:
        more = weight_of(item)
        if not bins or weight + more > target:
            bins.append([])
            weight = 0
        bins[-1].append(item)
        weight += more
    return bins
