"""Decides which message is the first that counts after the source has emptied a table. Pure.

A TRUNCATE deletes the rows of all earlier messages. Only messages of the same Kafka partition have
an order. So all rows of the table must come from one partition and one source table.
"""

from __future__ import annotations

from collections.abc import Mapping

from stream_app.checkpoint.job_state import SourceTableNames
from stream_app.epochs.stages.decode_counts import DecodeCounts
from stream_app.errors import WrongSourceError
from stream_app.format.snapshot_properties.source_end_json import offsets_of_topics
from stream_app.kafka.offset_ranges import KafkaPartition


def partition_counts(source_end: str) -> Mapping[str, int]:
    """Return the number of partitions of each topic in an epoch's end; none for other sources.

    Raises:
        ValueError: the text is not JSON.
    """
    return {
        topic: len(topic_offsets) for topic, topic_offsets in offsets_of_topics(source_end).items()
    }


def first_counting_offsets(
    counts: DecodeCounts, source_tables: SourceTableNames, counts_by_topic: Mapping[str, int]
) -> Mapping[KafkaPartition, int]:
    """Return partition → offset of the last TRUNCATE; empty without one.

    Args:
        counts: the counts of the epoch and the table.
        source_tables: the source tables of all rows in the table, and of those in the epoch.
        counts_by_topic: the number of partitions of each topic in the epoch.

    Raises:
        WrongSourceError: the messages do not determine which rows the TRUNCATE deleted.
    """
    if not counts.truncation_offsets:
        return {}
    topics = {*source_tables, *(topic for topic, _ in counts.truncation_offsets)}
    names = {name for table_names in source_tables.values() for name in table_names if name}
    read_partitions = {
        kafka_partition for kafka_partition in counts.ends if kafka_partition[0] in topics
    }
    partition_count = max(
        len(read_partitions), *(counts_by_topic.get(topic, 1) for topic in topics)
    )
    if len(names) > 1:
        problem = f"the table has rows of {len(names)} source tables: {', '.join(sorted(names))}"
    elif len(topics) > 1:
        problem = f"the table's rows come from {len(topics)} topics: {', '.join(sorted(topics))}"
    elif partition_count > 1:
        problem = (
            f"its topic has {partition_count} partitions, so the order of its messages is not known"
        )
    else:
        return counts.truncation_offsets
    (topic, partition_number), offset = min(counts.truncation_offsets.items())
    raise WrongSourceError(
        "the source table was truncated, and no message shows which rows that has deleted: "
        f"{problem}",
        where=f"topic {topic}, partition {partition_number}, offset {offset}",
        fix="to keep the rows and continue, set the format's option truncate = 'ignore', and "
        "delete by hand what is too much; truncate = 'apply' needs a topic of one partition for "
        "the rows of one source table",
    )
