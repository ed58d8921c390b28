"""Decides which files of a key index form its newest state, and which are merged.

The index of a key share is a stack of layers on local disk. The lowest layer has all keys at a
snapshot, and each further layer the changes up to a later snapshot. Number and name identify a
snapshot, because a rollback frees numbers.
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
    layers: Collection[LayerSpan], versions: Collection[LayerSnapshot]
) -> list[LayerSpan]:
    """Return the layers of the newest state, lowest first; empty without a state.

    Of several chains to a version the shortest counts, which was merged last.

    Args:
        layers: all existing layers.
        versions: the table's versions that a state may have.
    """
    shortest_chains: dict[LayerSnapshot, list[LayerSpan]] = {}
    for layer in sorted(layers, key=lambda layer: layer.end.snapshot_id):
        lower_layers = [] if layer.start is None else shortest_chains.get(layer.start)
        if lower_layers is None:
            continue
        chain = [*lower_layers, layer]
        known_chain = shortest_chains.get(layer.end)
        if known_chain is None or len(chain) < len(known_chain):
            shortest_chains[layer.end] = chain
    usable_versions = [version for version in shortest_chains if version in versions]
    return shortest_chains[max(usable_versions)] if usable_versions else []


def lowest_merged_layer(row_counts: Sequence[int]) -> int:
    """Return the index of the lowest layer to merge with all above; `len(row_counts) - 1` for none.

    Args:
        row_counts: the number of rows of each layer, lowest first.
    """
    lowest = len(row_counts) - 1
    merged_row_count = max(row_counts[lowest], 1)
    while lowest > 0 and row_counts[lowest - 1] < GROWTH * merged_row_count:
        lowest -= 1
        merged_row_count += row_counts[lowest]
    return lowest
