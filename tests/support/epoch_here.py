"""An epoch's tasks in the caller, without Spark: the same bodies, the same shuffle."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from stream_app.cdc.change_batch import BAD_RECORD_SCHEMA
from stream_app.format.bucket_hash import murmur_hash
from stream_app.spark.ingest.blocks import BLOCK_ORDER
from stream_app.spark.ingest.epoch_plan import EpochPlan
from stream_app.spark.ingest.epoch_runner import TableOutput, outputs_of
from stream_app.spark.ingest.route_task import route_partition
from stream_app.spark.ingest.write_task import write_partition

Parts = Sequence[pa.RecordBatch]
"""The messages of an epoch; one task reads each batch."""


@dataclass
class EpochHere:
    """Implements `EpochRunner`.

    Attributes:
        plans: of each epoch that was run, the last one.
    """

    plans: dict[int, EpochPlan] = field(default_factory=dict)

    def run(self, epoch: int, messages: Parts, plan: EpochPlan) -> Sequence[TableOutput]:
        self.plans[epoch] = plan
        tasks: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for part in messages:
            for batch in route_partition([part], plan):
                for block in batch.to_pylist():
                    place = murmur_hash(struct.pack("<i", block["task"])) % plan.shape.tasks
                    tasks[place].append({"schema": batch.schema, **block})
        return outputs_of(plan, (row for each in tasks.values() for row in _written(each, plan)))

    def with_keys(self, messages: Parts, bad: pa.Table) -> pa.Table:
        position = ["topic", "partition", "offset"]
        keys = pa.Table.from_batches(messages).select([*position, "key"])
        return bad.drop_columns("key").join(keys, position).select(BAD_RECORD_SCHEMA.names)


def _written(blocks: list[dict[str, Any]], plan: EpochPlan) -> Iterator[tuple[int, int, bytes]]:
    schema = blocks[0]["schema"]
    ordered = sorted(blocks, key=lambda block: [block[name] for name in BLOCK_ORDER])
    batches = [
        pa.RecordBatch.from_pylist(ordered[at : at + 2], schema) for at in range(0, len(ordered), 2)
    ]
    for result in write_partition(batches, plan):
        for row in result.to_pylist():
            yield row["table"], row["kind"], row["payload"]
