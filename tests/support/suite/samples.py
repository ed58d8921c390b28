"""Chooses the cases of costly tests that a short run omits; `--thorough` runs all.

Checksums order the cases. So the choice does not follow the order of the list, in which the values
of an option alternate.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable

import pytest

COSTLY_MARKS = ("java", "kafka", "slow", "spark")
COSTLY_FOLDERS = ("tests/interop/", "tests/scenarios/", "tests/simulation/")


def further_cases(items: Iterable[pytest.Item], seed: int) -> list[pytest.Item]:
    """Return the items that a short run leaves out of the lists of cases of costly tests.

    Of three to five cases of one test a short run takes a third, of more a sixth. Seeds 0 to 5
    together take each case.
    """
    cases_by_test: dict[str, list[pytest.Item]] = {}
    for item in items:
        test, bracket, _ = item.nodeid.partition("[")
        if bracket and _is_costly(item):
            cases_by_test.setdefault(test, []).append(item)
    left_out: list[pytest.Item] = []
    for cases in cases_by_test.values():
        share = 1 if len(cases) < 3 else 3 if len(cases) < 6 else 6
        ranking = sorted(cases, key=_checksum)
        left_out += [case for rank, case in enumerate(ranking) if rank % share != seed % share]
    return left_out


def _is_costly(item: pytest.Item) -> bool:
    has_mark = any(item.get_closest_marker(name) for name in COSTLY_MARKS)
    return has_mark or item.nodeid.startswith(COSTLY_FOLDERS)


def _checksum(item: pytest.Item) -> int:
    return zlib.crc32(item.nodeid.encode())
