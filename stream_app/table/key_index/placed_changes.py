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
        partitions: int64 [n]; the partition that each change names.
        is_removal: bool [n]; whether the key has no row after the change.
        partitions_before: int64 [k]; the partition of each key's row before all changes, or
            `NOWHERE`.
    """

    key_numbers: Int64s
    partitions: Int64s
    is_removal: Bools
    partitions_before: Int64s


@dataclass(frozen=True, slots=True)
class PlacedChanges:
    """m changes in the order of the source.

    Attributes:
        change_indices: int64 [m]; the index of the change from which each placed change comes.
        partitions: int64 [m]; the partition where it takes effect.
        deletes_older: bool [m]; whether it deletes the key's older row.
        partitions_after: int64 [k]; the partition of each key's row afterwards, or `NOWHERE`.
    """

    change_indices: Int64s
    partitions: Int64s
    deletes_older: Bools
    partitions_after: Int64s


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
        partitions=changes.partitions[order],
        is_removal=changes.is_removal[order],
        partitions_before=changes.partitions_before,
    )
    place = _move_to_newer if older_row_rule is OlderRowRule.MOVES else _keep_older
    ordered_indices, partitions, deletes_older, partitions_after = place(
        ordered_changes, older_row_rule
    )
    change_indices = order[ordered_indices]
    source_order = np.lexsort((~deletes_older, change_indices))
    return PlacedChanges(
        change_indices=change_indices[source_order],
        partitions=partitions[source_order],
        deletes_older=deletes_older[source_order],
        partitions_after=partitions_after,
    )


def _move_to_newer(changes: KeyChanges, _: OlderRowRule) -> tuple[Int64s, Int64s, Bools, Int64s]:
    """Let the newer row win, and delete the older row in its partition.

    Args:
        changes: the changes by key.

    Returns:
        The fields of `PlacedChanges`, in their order, with indices in `changes` as change
        indices: int64 [m], int64 [m], bool [m] and int64 [k].
    """
    is_first, is_last = _bounds(changes.key_numbers)
    new_partitions = np.where(changes.is_removal, NOWHERE, changes.partitions)
    previous_partitions = np.empty(len(changes.key_numbers), np.int64)
    previous_partitions[1:] = new_partitions[:-1]
    previous_partitions[is_first] = changes.partitions_before[changes.key_numbers[is_first]]
    has_row = previous_partitions != NOWHERE
    is_move = ~changes.is_removal & has_row & (previous_partitions != changes.partitions)
    move_indices, add_indices = np.flatnonzero(is_move), np.flatnonzero(~changes.is_removal)
    delete_indices = np.flatnonzero(changes.is_removal & has_row)
    change_indices = np.concatenate([move_indices, add_indices, delete_indices])
    partitions = np.concatenate(
        [
            previous_partitions[move_indices],
            changes.partitions[add_indices],
            previous_partitions[delete_indices],
        ]
    )
    deletes_older = np.zeros(len(change_indices), np.bool_)
    deletes_older[: len(move_indices)] = True
    partitions_after = changes.partitions_before.copy()
    partitions_after[changes.key_numbers[is_last]] = new_partitions[is_last]
    return change_indices, partitions, deletes_older, partitions_after


def _keep_older(
    changes: KeyChanges, older_row_rule: OlderRowRule
) -> tuple[Int64s, Int64s, Bools, Int64s]:
    """Keep the older row's partition; newer rows are merged into it or ignored.

    Two keys with two changes each. The first key has a row in partition 7, the second has none::

        key_numbers       [0, 0, 1, 1]
        partitions        [8, 8, 8, 9]
        is_removal        [F, T, F, F]
        is_start          [T, F, T, F]
        key_partitions    [7, 7, 8, 8]
        partitions_after  [NOWHERE, 8]      of the two keys

    A rule that skips newer rows keeps change 2 alone, which names the partition of its key.

    Args:
        changes: the changes by key.

    Returns:
        The arrays of `_move_to_newer`; no change deletes an older row.
    """
    count = len(changes.key_numbers)
    is_first, is_last = _bounds(changes.key_numbers)
    is_start = is_first.copy()
    is_start[1:] |= changes.is_removal[:-1]  # after its row ends, a key gets a partition again
    starts = np.flatnonzero(is_start)
    older_partitions = np.where(is_first, changes.partitions_before[changes.key_numbers], NOWHERE)
    older_partitions = older_partitions[starts]
    is_new = older_partitions == NOWHERE
    start_partitions = np.where(is_new, changes.partitions[starts], older_partitions)
    key_partitions = np.repeat(start_partitions, np.diff([*starts.tolist(), count]))
    takes_effect = ~(is_start & changes.is_removal)
    takes_effect[starts] |= ~is_new  # otherwise the change would end a row that does not exist
    if older_row_rule is OlderRowRule.SKIPS:
        takes_effect &= changes.partitions == key_partitions
    change_indices = np.flatnonzero(takes_effect)
    partitions_after = changes.partitions_before.copy()
    new_partitions = np.where(changes.is_removal, NOWHERE, key_partitions)
    partitions_after[changes.key_numbers[is_last]] = new_partitions[is_last]
    deletes_older = np.zeros(len(change_indices), np.bool_)
    return change_indices, key_partitions[change_indices], deletes_older, partitions_after


def _bounds(key_numbers: Int64s) -> tuple[Bools, Bools]:
    """Mark the first and the last change of each key: two bool [n]."""
    differs = key_numbers[1:] != key_numbers[:-1]
    is_first, is_last = np.ones(len(key_numbers), np.bool_), np.ones(len(key_numbers), np.bool_)
    is_first[1:], is_last[:-1] = differs, differs
    return is_first, is_last
