"""Decides which files of a key index form its newest state, and which are merged.

The index of a key share is a stack of layers on local disk. The lowest layer has all keys at a
snapshot, and each further layer the changes up to a later snapshot. Number and name identify a
snapshot, because a rollback frees ids.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

GROWTH = 2
"""A layer is at least this many times as large as the one above it."""


@dataclass(frozen=True, slots=True, order=True)
class LayerSnapshot:
    """A snapshot in a layer's span; id 0 stands for the table before its first snapshot."""

    snapshot_id: int
    name: str = ""


@dataclass(frozen=True, slots=True, order=True)
class LayerSpan:
    """The versions that a layer covers: the changes after `start` up to `end`.

    Attributes:
        start: None if the layer has all keys.
    """

    start: LayerSnapshot | None
    end: LayerSnapshot
    row_count: int = 0


def newest_chain(
    spans: Collection[LayerSpan], versions: Collection[LayerSnapshot]
) -> list[LayerSpan]:
    """Return the spans of the newest state's layers, lowest first; empty without a state.

    Of several chains to one version, the shortest counts, because its layers were merged last.

    Args:
        spans: the spans of all existing layers.
        versions: the table's versions that a state may have.
    """
    shortest_chains: dict[LayerSnapshot, list[LayerSpan]] = {}
    for span in sorted(spans, key=lambda span: span.end.snapshot_id):
        lower_spans = [] if span.start is None else shortest_chains.get(span.start)
        if lower_spans is None:
            continue
        chain = [*lower_spans, span]
        known_chain = shortest_chains.get(span.end)
        if known_chain is None or len(chain) < len(known_chain):
            shortest_chains[span.end] = chain
    usable_versions = [version for version in shortest_chains if version in versions]
    return shortest_chains[max(usable_versions)] if usable_versions else []


def lowest_merged_layer(row_counts: Sequence[int]) -> int:
    """Return the index of the lowest layer to merge with all above; `len(row_counts) - 1` for none.

    Args:
        row_counts: the number of rows of each layer, lowest first.
    """
    lowest_index = len(row_counts) - 1
    merged_row_count = max(row_counts[lowest_index], 1)
    while lowest_index > 0 and row_counts[lowest_index - 1] < GROWTH * merged_row_count:
        lowest_index -= 1
        merged_row_count += row_counts[lowest_index]
    return lowest_index
