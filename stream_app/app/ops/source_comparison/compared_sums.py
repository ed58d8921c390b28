"""Compares the rows of a table and its source by checksums, and finds those that differ.

1. Each side computes the sums of 4,096 groups of keys. Equal totals end the comparison.
2. Each side hashes the rows of groups that differ, for as many groups as `ROWS_MAX` allows.
3. The source may be ahead of the table. So differing rows are compared again until they agree or
   the time is up. Rows that the source changes meanwhile count as moving, not as different.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
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
        missing, wrong, unexpected: texts of the keys that the table lacks, has with other values,
            or has without the source having them.
        moving: the number of keys that the source changed during the comparison.
        groups: the numbers of differing groups, and of those whose rows were compared.
        source_rows: each differing key → the source's rows for it.
    """

    total: RowSum
    missing: tuple[bytes, ...] = ()
    wrong: tuple[bytes, ...] = ()
    unexpected: tuple[bytes, ...] = ()
    moving: int = 0
    groups: tuple[int, int] = (0, 0)
    source_rows: HashedRowsByKey = field(default_factory=dict)

    @property
    def is_equal(self) -> bool:
        """Whether all rows were compared, none differ, and none changed meanwhile."""
        differing, compared = self.groups
        differs = self.missing or self.wrong or self.unexpected
        return not (differs or self.moving) and differing == compared


def compare_sums(
    table: SummedSide, source: SummedSide, *, wait_s: float, clock: Clock
) -> SumComparison:
    """Compare a table with its source.

    Args:
        wait_s: how long to wait until the table has changes that the source has already.
    """
    table_total = table.total()
    if table_total is not None and table_total == source.total():
        return SumComparison(total=table_total)
    source_groups = source.groups()
    total = sum(source_groups.values(), NO_ROWS)
    if table_total == total:
        return SumComparison(total=total)
    table_groups = table.groups()
    differing = [
        group
        for group in sorted({*table_groups, *source_groups})
        if table_groups.get(group) != source_groups.get(group)
    ]
    read_groups = _groups_up_to(
        differing, lambda group: _rows_of(table_groups, group) + _rows_of(source_groups, group)
    )
    if not read_groups:
        return SumComparison(total=total, groups=(len(differing), 0))
    first_rows, table_rows = (
        group_by_key(source.rows(read_groups)),
        group_by_key(table.rows(read_groups)),
    )
    differing_keys, moving_keys = _differing_keys(table_rows, first_rows), set[bytes]()
    deadline = clock.steady_seconds() + wait_s
    while differing_keys and clock.steady_seconds() < deadline:
        clock.sleep(_RETRY_INTERVAL_S)
        table_rows = group_by_key(table.rows(read_groups))
        source_rows = group_by_key(source.rows(read_groups))
        moving_keys |= {
            key for key in differing_keys if source_rows.get(key) != first_rows.get(key)
        }
        differing_keys &= _differing_keys(table_rows, first_rows) - moving_keys
    return SumComparison(
        total=total,
        missing=tuple(sorted(key for key in differing_keys if key not in table_rows)),
        wrong=tuple(
            sorted(key for key in differing_keys if key in table_rows and key in first_rows)
        ),
        unexpected=tuple(sorted(key for key in differing_keys if key not in first_rows)),
        moving=len(moving_keys),
        groups=(len(differing), len(read_groups)),
        source_rows={key: first_rows.get(key, Counter()) for key in differing_keys},
    )


def _rows_of(sums: Mapping[int, RowSum], group: int) -> int:
    return sums.get(group, NO_ROWS).rows


def _groups_up_to(groups: Sequence[int], size: Callable[[int], int]) -> list[int]:
    first_groups: list[int] = []
    rows = 0
    for group in groups:
        rows += size(group)
        if first_groups and rows > ROWS_MAX:
            break
        first_groups.append(group)
    return first_groups


def _differing_keys(table_rows: HashedRowsByKey, source_rows: HashedRowsByKey) -> set[bytes]:
    return {
        key for key in {*table_rows, *source_rows} if table_rows.get(key) != source_rows.get(key)
    }
