"""Runs Paimon Rust's writer or Delta's MERGE on tables of several sizes, for `bench.growth.growth`.

    python -m bench.growth.other_writers rust|delta JSON

JSON is a list of tables: the path, the numbers of keys and of changed and old partitions, the
changes of an epoch, and the number of epochs. The program prints, as JSON, the mean processor
seconds of an epoch for each table. Epochs of the tables take turns. Rust writes into existing
tables, and compacts nothing. Delta's tables are created here. The program runs in another Python
environment, which has NumPy, Arrow, and pypaimon-rust or deltalake.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.growth.changed_rows import OLD_KEYS, partition_rows, random_changes

Write = Callable[[pa.RecordBatch], object]


def rust(table: Mapping[str, Any]) -> Write:
    from pypaimon_rust.datafusion import PaimonCatalog

    table_folder = Path(table["path"])
    catalog = PaimonCatalog({"warehouse": str(table_folder.parents[1])})
    builder = catalog.get_table(
        f"{table_folder.parent.stem}.{table_folder.name}"
    ).new_stream_write_builder()
    epochs = iter(range(1_000_000))

    def write(changes: pa.RecordBatch) -> None:
        epoch = next(epochs)
        writer = builder.new_write()
        writer.write_arrow(changes)
        builder.new_commit().commit(epoch, writer.prepare_commit(False, epoch))

    return write


def delta(table: Mapping[str, Any]) -> Write:
    from deltalake import DeltaTable, write_deltalake

    delta_path = f"{table['path']}-delta"
    rng = np.random.default_rng(1)
    sizes = [table["keys"]] * table["changed"] + [OLD_KEYS] * table["old"]
    batches = (rows for part, keys in enumerate(sizes) for rows in partition_rows(rng, part, keys))
    schema = random_changes(rng, 1, range(1), 1).schema
    reader = pa.RecordBatchReader.from_batches(schema, batches)
    write_deltalake(delta_path, reader, partition_by=["p"])

    def write(changes: pa.RecordBatch) -> None:
        merge = DeltaTable(delta_path).merge(
            changes, "old.p = new.p AND old.k = new.k", source_alias="new", target_alias="old"
        )
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    return write


def _distinct(changes: pa.RecordBatch) -> pa.RecordBatch:
    """Keep one change of each key, because a MERGE refuses two."""
    keys = changes.column("k").to_numpy() * 10_000 + changes.column("p").to_numpy()
    return changes.take(pa.array(np.unique(keys, return_index=True)[1]))


def main() -> None:
    name, text = sys.argv[1:]
    tables = json.loads(text)
    rng = np.random.default_rng(11)
    writers = [{"rust": rust, "delta": delta}[name](table) for table in tables]
    seconds: list[list[float]] = [[] for _ in tables]
    for _ in range(tables[0]["epochs"]):
        for table, write, table_seconds in zip(tables, writers, seconds, strict=True):
            partitions = range(table["changed"])
            changes = _distinct(random_changes(rng, table["changes"], partitions, table["keys"]))
            start_s = time.process_time()
            write(changes)
            table_seconds.append(time.process_time() - start_s)
    print(json.dumps([statistics.mean(table_seconds[1:]) for table_seconds in seconds]))


if __name__ == "__main__":
    main()
