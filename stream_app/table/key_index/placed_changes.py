"""Computes, in columns, in which partitions the changes of keys take effect. Pure.

`key_placement` calls it for the rows of a key share.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stream_app.arrow_buffers import Bools, Int64s
from stream_app.model.traits.merge_engine import OlderRowRule

NOWHERE = -1
"""The partition of a key without a row."""


@dataclass(frozen=True, slots=True)
class KeyChanges:
    """n changes of k keys in the order of the source.

    Attributes:
        key_numbers: int64 [n]; the number of each change's key, from 0 to k - 1.
        partition: int64 [n]; the partition that each change names.
        adds: bool [n]; whether the key has a row after the change.
        ends: bool [n]; whether the key has no row after the change.
        before: int64 [k]; the partition of each key's row before all changes, or `NOWHERE`.
    """

    key_numbers: Int64s
    partition: Int64s
    adds: Bools
    ends: Bools
    before: Int64s


@dataclass(frozen=True, slots=True)
class PlacedChanges:
    """m changes in the order of the source.

    Attributes:
        change_numbers: int64 [m]; the number of the change from which each placed change comes.
        partition: int64 [m]; the partition where it takes effect.
        deletes_older: bool [m]; whether it deletes the key's older row.
        after: int64 [k]; the partition of each key's row afterwards, or `NOWHERE`.
    """

    change_numbers: Int64s
    partition: Int64s
    deletes_older: Bools
    after: Int64s


def place_changes(changes: KeyChanges, older_row_rule: OlderRowRule) -> PlacedChanges:
    """Compute, in columns, in which partition each change takes effect.

    The changes of a key are in the order of the source, and each meets the row that its predecessor
    left. Three changes of a key whose row is in partition 7::

        change        +U in 8    -D of 8    +I in 9
        meets         7          8          nowhere
        becomes       -D in 7,   -D in 8    +I in 9
                      +U in 8

    Paimon's delete also goes to the partition that it names; here it goes only to the row's
    partition.
    """
    order = np.argsort(changes.key_numbers, kind="stable")
    ordered_changes = KeyChanges(
        key_numbers=changes.key_numbers[order],
        partition=changes.partition[order],
        adds=changes.adds[order],
        ends=changes.ends[order],
        before=changes.before,
    )
    place = _move_to_newer if older_row_rule is OlderRowRule.MOVES else _keep_older
    source, partition, deletes_older, after = place(ordered_changes, older_row_rule)
    source = order[source]
    source_order = np.lexsort((~deletes_older, source))
    return PlacedChanges(
        source[source_order], partition[source_order], deletes_older[source_order], after
    )


def _move_to_newer(changes: KeyChanges, _: OlderRowRule) -> tuple[Int64s, Int64s, Bools, Int64s]:
    """Let the newer row win, and delete the older row in its partition."""
    count = len(changes.key_numbers)
    is_first, is_last = _bounds(changes.key_numbers)
    partition_after = np.where(changes.ends, NOWHERE, changes.partition)
    previous_partition = np.empty(count, np.int64)
    previous_partition[1:] = partition_after[:-1]
    previous_partition[is_first] = changes.before[changes.key_numbers[is_first]]
    indices = np.arange(count)
    has_row = previous_partition != NOWHERE
    moved = indices[changes.adds & has_row & (previous_partition != changes.partition)]
    added, deleted = indices[changes.adds], indices[changes.ends & has_row]
    source = np.concatenate([moved, added, deleted])
    partition = np.concatenate(
        [previous_partition[moved], changes.partition[added], previous_partition[deleted]]
    )
    deletes_older = np.zeros(len(source), np.bool_)
    deletes_older[: len(moved)] = True
    after = changes.before.copy()
    after[changes.key_numbers[is_last]] = partition_after[is_last]
    return source, partition, deletes_older, after


def _keep_older(
    changes: KeyChanges, older_row_rule: OlderRowRule
) -> tuple[Int64s, Int64s, Bools, Int64s]:
    """Keep the older row's partition; newer rows are merged into it or ignored.

    Two keys with two changes each. The first key has a row in partition 7, the second has none::

        key            [0, 0, 1, 1]
        partition      [8, 8, 8, 9]
        ends           [F, T, F, F]
        begins         [T, F, T, F]
        key_partition  [7, 7, 8, 8]
        after          [NOWHERE, 8]      of the two keys

    A rule that skips newer rows keeps change 2 alone, which names the partition of its key.
    """
    count = len(changes.key_numbers)
    is_first, is_last = _bounds(changes.key_numbers)
    begins = is_first.copy()
    begins[1:] |= changes.ends[:-1]  # after its row ends, a key gets a partition again
    starts = np.flatnonzero(begins)
    older_partition = np.where(is_first, changes.before[changes.key_numbers], NOWHERE)[starts]
    is_new = older_partition == NOWHERE
    partition_of_start = np.where(is_new, changes.partition[starts], older_partition)
    key_partition = np.repeat(partition_of_start, np.diff([*starts.tolist(), count]))
    takes_effect = ~(begins & changes.ends)
    takes_effect[starts] |= ~is_new  # otherwise the change would end a row that does not exist
    if older_row_rule is OlderRowRule.SKIPS:
        takes_effect &= changes.partition == key_partition
    source = np.flatnonzero(takes_effect)
    after = changes.before.copy()
    after[changes.key_numbers[is_last]] = np.where(changes.ends, NOWHERE, key_partition)[is_last]
    return source, key_partition[source], np.zeros(len(source), np.bool_), after


def _bounds(key_numbers: Int64s) -> tuple[Bools, Bools]:
    """Mark the positions at which each key's changes begin and end: two bool [n]."""
    differs = key_numbers[1:] != key_numbers[:-1]
    first, last = np.ones(len(key_numbers), np.bool_), np.ones(len(key_numbers), np.bool_)
    first[1:], last[:-1] = differs, differs
    return first, last
