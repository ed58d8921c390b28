"""The job finds the rows that a TRUNCATE deleted, or reports that it cannot know them."""

from __future__ import annotations

import pytest

from stream_app.checkpoint.job_state import SourceTableNames
from stream_app.epochs.rounds.truncation import (
    first_counting_offsets,
    partition_counts,
)
from stream_app.epochs.stages.decode_counts import DecodeCounts, PartitionEnd
from stream_app.errors import WrongSourceError
from stream_app.kafka.offset_ranges import KafkaPartition


def counts(truncation_offsets: dict[KafkaPartition, int], *others: KafkaPartition) -> DecodeCounts:
    ends = {where: PartitionEnd(99, None) for where in (*truncation_offsets, *others)}
    return DecodeCounts(truncation_offsets=truncation_offsets, ends=ends)


def test_rows_count_from_the_last_truncate_of_the_only_partition() -> None:
    assert first_counting_offsets(counts({}), {}, {}) == {}
    met = {"t": ["shop.orders"]}
    total = counts({("t", 0): 7}).plus(counts({("t", 0): 3}))
    assert first_counting_offsets(total, met, {"t": 1, "u": 8}) == {("t", 0): 7}
    assert first_counting_offsets(total, {}, {}) == {("t", 0): 7}
    assert first_counting_offsets(total, {"t": ["", "shop.orders"]}, {}) == {("t", 0): 7}


@pytest.mark.parametrize(
    ("decode_counts", "met", "counts_by_topic", "problem"),
    [
        (counts({("t", 1): 7}), {}, {"t": 2}, "its topic has 2 partitions"),
        (counts({("t", 1): 7}, ("t", 0)), {}, {}, "its topic has 2 partitions"),
        (counts({("t", 0): 7}), {"t": ["a.o", "b.o"]}, {"t": 1}, "2 source tables: a.o, b.o"),
        (counts({("t", 0): 7}), {"u": ["a.o"]}, {"t": 1}, "from 2 topics: t, u"),
        (counts({("t", 0): 7, ("u", 0): 7}), {}, {}, "from 2 topics: t, u"),
    ],
)
def test_the_job_refuses_a_truncate_with_unknown_rows(
    decode_counts: DecodeCounts,
    met: SourceTableNames,
    counts_by_topic: dict[str, int],
    problem: str,
) -> None:
    with pytest.raises(WrongSourceError, match=problem):
        first_counting_offsets(decode_counts, met, counts_by_topic)


def test_a_source_of_files_has_no_partitions() -> None:
    assert partition_counts('{"t":{"0":5,"1":6},"u":{"0":1}}') == {"t": 2, "u": 1}
    assert partition_counts('{"logOffset":3}') == {}
