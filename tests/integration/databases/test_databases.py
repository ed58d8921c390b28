"""Two whole databases, with twelve tables each, through one job that is killed at random."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.paimon_java import PaimonJava
from tests.testbed.database_proof import database_proof
from tests.testbed.testbed import Testbed

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.java, pytest.mark.slow]
KILLS = 2
STEPS = 60


def test_every_table_equals_its_source(
    tmp_path: Path, testbed: Testbed, paimon_java: PaimonJava, seed: int
) -> None:
    with database_proof(tmp_path, testbed, seed, name="whole") as proof:
        for _ in range(KILLS):
            proof.work_and_kill(STEPS)
        proof.drain()
        problems = proof.problems(paimon_java)
        print("\n".join(proof.story()))
    assert problems == [], "\n".join(problems)
