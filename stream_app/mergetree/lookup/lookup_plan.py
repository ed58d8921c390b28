"""Decides which files of a bucket may have which keys, and the order of lookups.

`key_lookup` calls it. It uses only metadata: no rows, no files, no clock.

Source: Paimon `mergetree/LookupLevels.java`, `mergetree/LookupUtils.java`, which look up one key at
a time; here a lookup searches a file for all of its keys at once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

from stream_app.mergetree.levels import files_of_runs
from stream_app.model.files.data_file_meta import DataFileMeta, KeyOrder

Tier = tuple[DataFileMeta, ...]
"""Files that are read together, because a key's newest row may be in any of them."""


def lookup_tiers(
    files: Iterable[DataFileMeta], *, is_ordered_by_age: bool = True
) -> tuple[Tier, ...]:
    """Return files in tiers, newest first. A key in one tier is not looked up in later ones.

    Sorted runs whose sequence numbers overlap are one tier: writers that ran side by side make such
    files.

    Args:
        is_ordered_by_age: whether the sequence number alone decides which row of a key is newest.
            Otherwise all files are one tier.
    """
    runs = files_of_runs(files)
    if not runs:
        return ()
    if not is_ordered_by_age:
        return (tuple(file for run in runs for file in run),)
    oldest_of_runs = (min(file.min_sequence_number for file in run) for run in runs)
    oldest_numbers = list(accumulate(oldest_of_runs, min))
    newest_numbers = [max(file.max_sequence_number for file in run) for run in runs]
    newest_numbers_of_rest = list(accumulate(reversed(newest_numbers), max))[::-1]
    tiers: list[Tier] = []
    tier: Tier = runs[0]
    for index, run in enumerate(runs[1:], 1):
        if newest_numbers_of_rest[index] < oldest_numbers[index - 1]:
            tiers.append(tier)
            tier = run
        else:
            tier += run
    return (*tiers, tier)


def keys_in(file: DataFileMeta, keys: Sequence[Any], key_of: KeyOrder) -> range:
    """Return the range of keys between a file's minimum and maximum key.

    Args:
        keys: keys in ascending order, as results of `key_of`; a binary search reads only a few.
    """
    return keys_between(keys, key_of(file.min_key), key_of(file.max_key))


def keys_between(keys: Sequence[Any], key_min: Any, key_max: Any) -> range:
    """Return the range of the indices of ascending keys from `key_min` to `key_max`."""
    start = bisect_left(keys, key_min)
    return range(start, bisect_right(keys, key_max, lo=start))
