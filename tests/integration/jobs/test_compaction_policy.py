"""A real job chooses compaction rules by its configuration, and Paimon reads its table."""

from __future__ import annotations

import pytest

from tests.support.jobs.job_harness import JobHarness, change

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.java, pytest.mark.slow]
EPOCHS = 8


def test_a_job_that_chooses_its_rules_compacts_later_than_the_default_trigger(
    harness: JobHarness,
) -> None:
    topic = harness.topic(change(number % 20, str(number)) for number in range(10 * EPOCHS))
    harness.configure(topic, source={"max-offsets-per-trigger": 10}, table={"primary-keys": ["id"]})
    result = harness.run("stream.compaction-policy=auto")
    assert "compaction policy of " in result.output
    kinds = [kind for kind, _ in map(str.split, harness.snapshots())]
    assert kinds == ["APPEND"] * EPOCHS, "the default trigger would have compacted 5 runs"
    last = 10 * EPOCHS
    assert harness.rows() == {number % 20: str(number) for number in range(last - 20, last)}
