"""Runs some cases of a long list at each commit, and all of them before a release."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any

import pytest
from _pytest.mark import ParameterSet


def sampled(cases: Iterable[Any], share: int) -> list[ParameterSet]:
    """Return cases as parameters; all but one in ``share`` of them are variants.

    Checksums of the cases choose. So the choice does not follow the order of the list, in which the
    values of an option alternate.
    """
    all_cases = list(cases)
    ranking = sorted(all_cases, key=_checksum)
    chosen_cases = ranking[: -(-len(ranking) // share)]
    return [
        pytest.param(case, marks=() if case in chosen_cases else pytest.mark.variant)
        for case in all_cases
    ]


def _checksum(case: object) -> int:
    return zlib.crc32(repr(case).encode())
