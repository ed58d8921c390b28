"""Measures what local copies of data files save: small epochs of random keys on a large table.

    python -m bench.compact.lookup_copies [--rows N] [--epochs N] [--changes N] [--delay-ms N]

The tables are on local disk, and on a store with slow requests. A line for each kind of table has
the time of an epoch without copies (``lookup.cache-max-disk-size`` = 0) ÷ the time with copies.
Epochs take turns, so that a busy machine slows both. The first epoch, which makes the copies, has a
column of its own.
"""

from __future__ import annotations

import argparse
import binascii
import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.compact.changelogs import PARTITION, CompactHere
from stream_app.clock import SystemClock
from stream_app.format.arrow_schema import arrow_schema
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import VALUE_KIND, new_table_schema
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.stream_table_commit import StreamTableCommit
from stream_app.table.kinds.table_kind_registry import bucket_writer
from stream_app.table.opening import create_or_open
from tests.support.files.flushed_files import flushed_files
from tests.support.servers.s3_server import running_server

KINDS: Mapping[str, Mapping[str, str]] = {
    "lookup": {"changelog-producer": "lookup"},
    "deletion vectors": {"deletion-vectors.enabled": "true"},
}
COLUMNS: Mapping[str, str] = {
    "BIGINT": "k BIGINT NOT NULL, v STRING, w STRING, n BIGINT",
    "STRING": "k STRING NOT NULL, v STRING, w STRING, n BIGINT",
}


@dataclass(frozen=True, slots=True)
class Store:
    """A store's location, and the options of its client."""

    bucket: str
    options: Mapping[str, str]


@dataclass
class Arm:
    """One table, with the wall-clock and processor seconds of each epoch."""

    table: FileStoreTable
    clock_s: list[float] = field(default_factory=list)
    processor_s: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._commit = StreamTableCommit(self.table, "bench", CompactHere(self.table))

    def load(self, keys: np.ndarray) -> None:
        self._write(0, keys)
        self._commit.compact_fully()

    def epoch(self, epoch: int, keys: np.ndarray) -> None:
        start_s, processor_start_s = time.monotonic(), time.process_time()
        self._write(epoch, keys)
        self._commit.compact_due()
        self.clock_s.append(time.monotonic() - start_s)
        self.processor_s.append(time.process_time() - processor_start_s)

    def _write(self, epoch: int, keys: np.ndarray) -> None:
        """Write rows of a key, two texts that do not compress well, and a number.

        The key is a number, or its digits.
        """
        fields = arrow_schema(self.table.schema.fields)
        kind = RowKind.UPDATE_AFTER if epoch else RowKind.INSERT
        v, w = (_texts(len(keys), 2 * epoch + column) for column in (0, 1))
        is_text = pa.types.is_string(fields[0].type)
        key = pa.array(np.char.zfill(keys.astype(str), 12)).cast(pa.string()) if is_text else keys
        kinds = pa.array(np.full(len(keys), int(kind), np.int8))
        columns = [kinds, pa.array(key), v, w, pa.array(keys)]
        number = self._commit.follow_and_wait()
        writer = bucket_writer(self.table, PARTITION, 0, next_sequence_number=number)
        writer.write(pa.RecordBatch.from_arrays(columns, [VALUE_KIND, *fields.names]))
        self._commit.commit_epoch(epoch, [flushed_files(writer, PARTITION, 0)])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--changes", type=int, default=500)
    parser.add_argument("--delay-ms", type=int, default=20)
    arguments = parser.parse_args()
    print("| store | table | key | changes | first epoch | clock | processor | copies, bytes |")
    print("| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |")
    with _store(arguments.delay_ms) as s3, tempfile.TemporaryDirectory() as folder:
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        for store in ("local disk", f"S3, {arguments.delay_ms} ms"):
            for kind, columns in ((kind, key) for kind in KINDS for key in COLUMNS):
                cells = _measure(arguments, store, kind, columns, s3, Path(folder))
                print(
                    f"| {store} | {kind} | {columns} | {arguments.changes} | {cells} |", flush=True
                )


def _measure(
    arguments: argparse.Namespace,
    store: str,
    kind: str,
    columns: str,
    s3: Store,
    folder: Path,
) -> str:
    name = f"{kind}-{columns}".replace(" ", "-")
    arms = []
    for size_max in ("0", "10 gb"):
        options = {"bucket": "1", "lookup.cache-max-disk-size": size_max, **KINDS[kind]}
        schema = new_table_schema(
            columns=parse_columns(COLUMNS[columns]),
            primary_keys=("k",), partition_keys=(), options=options, time_ms=0,
        )  # fmt: skip
        table_name = f"{name}-{size_max[0]}"
        path = f"{s3.bucket}/{table_name}" if store.startswith("S3") else str(folder / table_name)
        table = create_or_open(path, schema, SystemClock(), file_io_options=s3.options)
        arms.append(Arm(table))
    random = np.random.default_rng(0)
    for arm in arms:
        arm.load(np.arange(arguments.rows))
    for epoch in range(1, arguments.epochs + 1):
        keys = random.integers(0, arguments.rows, arguments.changes)
        for arm in arms:
            arm.epoch(epoch, keys)
    plain_arm, copies_arm = arms
    size = sum(path.stat().st_size for path in (folder.glob("stream_app-*/lookup/*/*/*")))
    first_ratio = copies_arm.processor_s[0] / plain_arm.processor_s[0]
    clock_ratio, processor_ratio = (
        _median(getattr(plain_arm, name)[1:]) / _median(getattr(copies_arm, name)[1:])
        for name in ("clock_s", "processor_s")
    )
    return f"{first_ratio:.2f} | {clock_ratio:.2f} | {processor_ratio:.2f} | {size:,}"


def _median(seconds: Sequence[float]) -> float:
    return float(np.median(seconds))


def _texts(count: int, seed: int) -> pa.Array:
    """Return texts of 32 digits, which do not compress below a half."""
    digits = pa.py_buffer(binascii.hexlify(np.random.default_rng(seed).bytes(count * 16)))
    fixed_size_texts = pa.Array.from_buffers(pa.binary(32), count, [None, digits])
    return fixed_size_texts.cast(pa.binary()).cast(pa.string())


@contextmanager
def _store(delay_ms: int) -> Iterator[Store]:
    """Run a store in another process, whose work does not count, within the block."""
    connection, child_connection = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=_serve, args=(child_connection, delay_ms)
    )
    process.start()
    yield connection.recv()
    connection.send(None)
    process.join()


def _serve(connection: Connection, delay_ms: int) -> None:
    with running_server() as server:
        bucket = f"s3://{server.new_bucket()}"
        server.before = lambda _method, _path: time.sleep(delay_ms / 1000)
        connection.send(Store(bucket, server.options))
        connection.recv()


if __name__ == "__main__":
    main()
