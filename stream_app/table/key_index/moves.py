"""Decides for the changes of many keys in which partition each takes effect, in whole columns.

The changes of a key stand in the order of the source. What one of them finds is what the one before
has left: no change is visited on its own. Three changes of a key whose row is in partition 7::

    change        +U in 8    -D of 8    +I in 9
    found         7          8          nowhere
    becomes       -D in 7,   -D in 8    +I in 9
                  +U in 8

Source: Paimon `crosspartition/DeleteExistingProcessor.java`, `UseOldExistingProcessor.java`,
`SkipNewExistingProcessor.java`, `GlobalIndexAssigner.java#processInput`. There a delete also goes
to the partition that it names; here it goes to its row alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stream_app.model.merge_engine import Existing

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
NOWHERE = -1


@dataclass(frozen=True, slots=True)
class KeyChanges:
    """n changes of k keys in the order of the source.

    Attributes:
        key: int64 [n], from 0 to k - 1.
        partition: int64 [n]; the partition that the change names.
        adds: bool [n]; whether the key has a row after it.
        ends: bool [n]; whether the key has no row after it.
        before: int64 [k]; the partition of each key's row before; `NOWHERE`: it has none.
    """

    key: Ints
    partition: Ints
    adds: Bools
    ends: Bools
    before: Ints


@dataclass(frozen=True, slots=True)
class PlacedChanges:
    """m changes in the order of the source.

    Attributes:
        source: int64 [m]; of which change each is made.
        partition: int64 [m]; where it takes effect.
        deletes_older: bool [m]; whether it deletes the row that the change has found.
        after: int64 [k]; the partition of each key's row afterwards, or `NOWHERE`.
    """

    source: Ints
    partition: Ints
    deletes_older: Bools
    after: Ints


def placed(changes: KeyChanges, existing: Existing) -> PlacedChanges:
    """Where changes take effect."""
    order = np.argsort(changes.key, kind="stable")
    ordered = KeyChanges(
        key=changes.key[order],
        partition=changes.partition[order],
        adds=changes.adds[order],
        ends=changes.ends[order],
        before=changes.before,
    )
    placing = _moved if existing is Existing.MOVES else _settled
    source, partition, deletes_older, after = placing(ordered, existing)
    source = order[source]
    back = np.lexsort((~deletes_older, source))
    return PlacedChanges(source[back], partition[back], deletes_older[back], after)


def _moved(changes: KeyChanges, _: Existing) -> tuple[Ints, Ints, Bools, Ints]:
    """The newer row counts: the older one is deleted where it is."""
    count = len(changes.key)
    first, last = _bounds(changes.key)
    left = np.where(changes.ends, NOWHERE, changes.partition)
    previous = np.empty(count, np.int64)
    previous[1:] = left[:-1]
    previous[first] = changes.before[changes.key[first]]
    at = np.arange(count)
    older = at[changes.adds & (previous != NOWHERE) & (previous != changes.partition)]
    added, deleted = at[changes.adds], at[changes.ends & (previous != NOWHERE)]
    source = np.concatenate([older, added, deleted])
    partition = np.concatenate([previous[older], changes.partition[added], previous[deleted]])
    deletes_older = np.zeros(len(source), np.bool_)
    deletes_older[: len(older)] = True
    after = changes.before.copy()
    after[changes.key[last]] = left[last]
    return source, partition, deletes_older, after


def _settled(changes: KeyChanges, existing: Existing) -> tuple[Ints, Ints, Bools, Ints]:
    """The older row keeps its partition, and takes the newer ones in or makes them void."""
    count = len(changes.key)
    first, last = _bounds(changes.key)
    begins = first.copy()
    begins[1:] |= changes.ends[:-1]  # behind an end, a key settles anew
    starts = np.flatnonzero(begins)
    known = np.where(first, changes.before[changes.key], NOWHERE)[starts]
    chosen = np.where(known == NOWHERE, changes.partition[starts], known)
    settled = np.repeat(chosen, np.diff([*starts.tolist(), count]))
    lacks = begins & changes.ends  # it ends a row that there is not
    lacks[starts] &= known == NOWHERE
    kept = ~lacks
    if existing is Existing.SKIPS:
        kept &= changes.partition == settled
    source = np.flatnonzero(kept)
    after = changes.before.copy()
    after[changes.key[last]] = np.where(changes.ends, NOWHERE, settled)[last]
    return source, settled[source], np.zeros(len(source), np.bool_), after


def _bounds(key: Ints) -> tuple[Bools, Bools]:
    """Where the changes of a key begin and end, in sorted order."""
    differs = key[1:] != key[:-1]
    first, last = np.ones(len(key), np.bool_), np.ones(len(key), np.bool_)
    first[1:], last[:-1] = differs, differs
    return first, last
