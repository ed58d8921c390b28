"""Compares the rows of a table and its source by checksums, and finds those that differ.

1. Each side computes the sums of 4,096 groups of keys. Equal totals end the comparison.
2. Each side hashes the rows of differing groups, of as many groups as `ROWS_MAX` allows.
3. The source may be ahead of the table. So differing rows are compared again until they agree or
   the time is up. Rows that the source changes meanwhile count as moving, not as different.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from stream_app.clock import Clock
from stream_app.format.row_hash.key_groups import HashedRows, group_by_key
from stream_app.model.checksum.row_sum import NO_ROWS, RowSum

ROWS_MAX = 200_000
"""The maximum number of rows in differing groups that are hashed one by one."""
_RETRY_INTERVAL_S = 2.0

HashedRowsByKey = Mapping[bytes, HashedRows]
"""The rows of each key."""


class SummedSide(Protocol):
    """One side of a comparison: a version of a table, or a database."""

    @property
    def label(self) -> str:
        """The side's name and position, as text."""
        ...

    def total(self) -> RowSum | None:
        """Return the checksum of all rows, or None if only reading them could compute it."""
        ...

    def groups(self) -> Mapping[int, RowSum]:
        """Return group → sum of its current rows, for groups that have rows."""
        ...

    def rows(self, groups: Collection[int]) -> HashedRows:
        """Return the hashes of the current rows in some groups."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SumComparison:
    """The outcome of a comparison.

    Attributes:
        total: the checksum of the source's rows.
        missing_keys: texts of the keys that only the source has.
        wrong_keys: texts of the keys that both sides have with different values.
        unexpected_keys: texts of the keys that only the table has.
        moving_key_count: the number of keys that the source changed during the comparison.
        differing_group_count: the number of groups of keys with different sums.
        compared_group_count: the number of these groups whose rows were compared.
        source_rows: differing key → the rows that the source has for this key.
    """

    total: RowSum
    missing_keys: tuple[bytes, ...] = ()
    wrong_keys: tuple[bytes, ...] = ()
    unexpected_keys: tuple[bytes, ...] = ()
    moving_key_count: int = 0
    differing_group_count: int = 0
    compared_group_count: int = 0
    source_rows: HashedRowsByKey = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """Whether the rows of all differing groups were compared."""
        return self.differing_group_count == self.compared_group_count

    @property
    def is_equal(self) -> bool:
        """Whether all rows were compared, none differ, and none changed meanwhile."""
        differs = self.missing_keys or self.wrong_keys or self.unexpected_keys
        return self.is_whole and not (differs or self.moving_key_count)


def compare_sums(
    table_side: SummedSide, source_side: SummedSide, *, wait_s: float, clock: Clock
) -> SumComparison:
    """Compare a table with its source.

    Args:
        wait_s: how long to wait until the table has changes that the source has already.
    """
    table_total = table_side.total()  # step 1
    if table_total is not None and table_total == source_side.total():
        return SumComparison(total=table_total)
    source_groups = source_side.groups()
    total = sum(source_groups.values(), NO_ROWS)
    if table_total == total:
        return SumComparison(total=total)
    table_groups = table_side.groups()
    differing_groups = [
        group
        for group in sorted({*table_groups, *source_groups})
        if table_groups.get(group) != source_groups.get(group)
    ]
    groups = _groups_within_limit(differing_groups, table_groups, source_groups)
    if not groups:
        return SumComparison(total=total, differing_group_count=len(differing_groups))
    source_rows = group_by_key(source_side.rows(groups))  # step 2
    table_rows = group_by_key(table_side.rows(groups))
    differing_keys = _differing_keys(table_rows, source_rows)
    moving_keys = set[bytes]()
    deadline_s = clock.steady_seconds() + wait_s
    while differing_keys and clock.steady_seconds() < deadline_s:  # step 3
        clock.sleep(_RETRY_INTERVAL_S)
        table_rows = group_by_key(table_side.rows(groups))
        later_rows = group_by_key(source_side.rows(groups))
        moving_keys |= {
            key for key in differing_keys if later_rows.get(key) != source_rows.get(key)
        }
        differing_keys &= _differing_keys(table_rows, source_rows) - moving_keys
    common_keys = table_rows.keys() & source_rows.keys()
    return SumComparison(
        total=total,
        missing_keys=tuple(sorted(differing_keys - table_rows.keys())),
        wrong_keys=tuple(sorted(differing_keys & common_keys)),
        unexpected_keys=tuple(sorted(differing_keys - source_rows.keys())),
        moving_key_count=len(moving_keys),
        differing_group_count=len(differing_groups),
        compared_group_count=len(groups),
        source_rows={key: source_rows.get(key, Counter()) for key in differing_keys},
    )


def _groups_within_limit(groups: Sequence[int], *sides: Mapping[int, RowSum]) -> list[int]:
    """Return the first groups, at least one of them, with at most `ROWS_MAX` rows on all sides."""
    first_groups: list[int] = []
    row_count = 0
    for group in groups:
        row_count += sum(sums.get(group, NO_ROWS).row_count for sums in sides)
        if first_groups and row_count > ROWS_MAX:
            break
        first_groups.append(group)
    return first_groups


def _differing_keys(table_rows: HashedRowsByKey, source_rows: HashedRowsByKey) -> set[bytes]:
    return {
        key for key in {*table_rows, *source_rows} if table_rows.get(key) != source_rows.get(key)
    }
