"""Iceberg's readers follow a table through a random history; tests/soak has 500 epochs."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.support.histories.iceberg_history import KINDS, IcebergHistory
from tests.support.judges.iceberg_reader import IcebergReader

pytestmark = pytest.mark.usefixtures("unsynced")
_STEPS = 40


@pytest.mark.parametrize("kind", KINDS)
def test_iceberg_s_readers_see_a_random_history(
    tmp_path: Path, iceberg: IcebergReader, seed: int, kind: str
) -> None:
    history = IcebergHistory(tmp_path, iceberg, kind, random.Random(seed))
    for _ in range(_STEPS):
        history.step()
        assert history.differences() == []
