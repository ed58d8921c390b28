"""Measures what the checksum of a table's rows costs an epoch: decode and write, with and without.

    python -m bench.write.row_checksum [--messages N] [--rounds N]

Messages of the shop, with both images, are written into a table of two buckets with changelog
input. One process, one core; both take turns, and each begins every second round. Figures are the
shortest processor times. Goal: at most 5 % of what one more message costs an epoch (`./run.sh bench
timeline`).
"""

from __future__ import annotations

import argparse
import hashlib
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from bench.shop.shop_changes import fresh_folder, message_batches, shop_format, shop_schema
from stream_app.clock import SystemClock
from stream_app.fileio.local.local_file_io import LocalFileIO
from stream_app.format.row_hash.row_hashes import row_hashes, sum_of_changes
from stream_app.format.row_hash.row_texts import row_texts
from stream_app.model.options.write_options import ROW_CHECKSUM
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.kinds.table_kind_registry import bucket_assigner, bucket_writer
from stream_app.table.versions.bucket_basis import NO_BASIS
from tests.support.files.flushed_files import flushed_files

MESSAGES = 250_000
ROUNDS = 7


def epoch(table: FileStoreTable, batches: list[pa.RecordBatch]) -> None:
    """Decode the messages, and write the rows of each bucket."""
    pipeline, assigner = shop_format(table.schema), bucket_assigner(table, NO_BASIS)
    writers = {}
    for batch in batches:
        for partition, bucket, rows in assigner.assign(pipeline.decode(batch).changes.rows):
            if (partition, bucket) not in writers:
                new_writer = bucket_writer(table, partition, bucket, next_sequence_number=0)
                writers[partition, bucket] = new_writer
            writers[partition, bucket].write(rows)
    for (partition, bucket), writer in writers.items():
        flushed_files(writer, partition, bucket)


def shortest_seconds(work: Callable[[], object], rounds: int) -> float:
    """Return the shortest processor time of the work."""
    shortest_s = float("inf")
    for _ in range(rounds):
        start_s = time.process_time()
        work()
        shortest_s = min(shortest_s, time.process_time() - start_s)
    return shortest_s


def lines(folder: Path, messages: int = MESSAGES, rounds: int = ROUNDS) -> Iterator[str]:
    """Yield the lines of a table."""
    pa.set_cpu_count(1)
    schema = shop_schema()
    batches = list(message_batches(messages))
    files, shortest_s = LocalFileIO(), {"false": float("inf"), "true": float("inf")}
    for turn in range(2 * rounds):
        value = ("false", "true")[(turn + turn // 2) % 2]
        options = {**schema.options, ROW_CHECKSUM.key: value}
        table_folder = fresh_folder(folder, f"t{turn}")
        table = FileStoreTable(table_folder, replace(schema, options=options), files, SystemClock())
        start_s = time.process_time()
        epoch(table, batches)
        shortest_s[value] = min(shortest_s[value], time.process_time() - start_s)
    row_batches = [shop_format(schema).decode(batch).changes.rows for batch in batches]
    columns = tuple(enumerate(schema.fields))
    count = sum(rows.num_rows for rows in row_batches)
    checksum_s = shortest_seconds(
        lambda: [sum_of_changes(rows, columns) for rows in row_batches], rounds
    )
    compiled_s = shortest_seconds(
        lambda: [row_hashes(rows, columns) for rows in row_batches], rounds
    )
    arrays_s = shortest_seconds(
        lambda: [row_hashes(rows, columns, uses_machine_code=False) for rows in row_batches], rounds
    )
    # MD5 pads each text, and hashes blocks of 64 bytes.
    texts = [row_texts(rows, columns) for rows in row_batches]
    blocks = sum(int(((ends[1:] - ends[:-1] + 8) // 64 + 1).sum()) for _, ends in texts)
    zeros = bytes(64 * blocks)
    md5_s = shortest_seconds(lambda: hashlib.md5(zeros, usedforsecurity=False).digest(), rounds)
    yield "| | µs of the processor a message |"
    yield "| --- | ---: |"
    yield f"| decode and write | {shortest_s['false'] / messages * 1e6:.2f} |"
    yield f"| with the checksum | {shortest_s['true'] / messages * 1e6:.2f} |"
    yield f"| more | {(shortest_s['true'] - shortest_s['false']) / messages * 1e6:.2f} |"
    for label, seconds in (
        ("one row: all", checksum_s),
        ("its text and MD5 by machine code", compiled_s),
        ("the same by Arrow and hashlib", arrays_s),
        ("OpenSSL's MD5 of as many blocks, in one call", md5_s),
    ):
        yield f"| {label} | {seconds / count * 1e6:.3f} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.write.row_checksum")
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stream_app-bench-") as folder:
        for line in lines(Path(folder), args.messages, args.rounds):
            print(line, flush=True)


if __name__ == "__main__":
    main()
