"""The layers of one key share as files on local disk, which a task maps into memory.

A file is written under another name and then renamed, so a file under its final name is complete.
The name has the range of snapshots of the file's changes, and the metadata has the buckets of the
codes. A lost or unreadable file is rebuilt from the table.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stream_app.model.bucket_id import BucketId
from stream_app.planning.key_index.layer_chain import LayerSnapshot, LayerSpan
from stream_app.table.key_index.key_layer import KeyLayer, Keys
from stream_app.table.key_index.table_key_reader import BUCKET_CODE, HASH_COLUMN

_SUFFIX = ".arrow"
_ALL = "all"
"""Stands for the first snapshot in the name of a lowest layer, which has all keys."""
_LOCK = "lock"
_BUCKETS_KEY = b"places"
"""The key of a layer's metadata under which it has its buckets."""
_BUCKETS_SCHEMA = pa.schema(
    [("partition", pa.binary()), ("bucket", pa.int32()), ("keys", pa.int64())]
)


@dataclass(slots=True)
class CodedBuckets:
    """The buckets of a key share, whose codes are numbers in the order of their first use.

    Attributes:
        ids: each bucket at the index of its code.
        key_counts: the number of the key share's keys in each bucket.
    """

    ids: list[BucketId] = field(default_factory=list)
    key_counts: list[int] = field(default_factory=list)
    _codes: dict[BucketId, int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._codes = {bucket_id: code for code, bucket_id in enumerate(self.ids)}

    def code(self, bucket_id: BucketId) -> int:
        """Return the code of a bucket; an unknown bucket gets a new code."""
        if bucket_id not in self._codes:
            self._codes[bucket_id] = len(self.ids)
            self.ids.append(bucket_id)
            self.key_counts.append(0)
        return self._codes[bucket_id]

    def count(self, bucket_codes: npt.NDArray[np.int32], step: int) -> None:
        """Add `step` to the count of each key's bucket.

        Args:
            bucket_codes: the code of each key's bucket; the method ignores negative codes.
            step: 1 or -1.
        """
        distinct_codes, key_counts = np.unique(bucket_codes[bucket_codes >= 0], return_counts=True)
        for code, key_count in zip(distinct_codes.tolist(), key_counts.tolist(), strict=True):
            self.key_counts[code] += step * key_count

    def to_bytes(self) -> bytes:
        """Serialize the buckets."""
        columns = [
            pa.array([bucket_id.partition for bucket_id in self.ids], pa.binary()),
            pa.array([bucket_id.bucket for bucket_id in self.ids], pa.int32()),
            pa.array(self.key_counts, pa.int64()),
        ]
        rows = pa.RecordBatch.from_arrays(columns, schema=_BUCKETS_SCHEMA)
        return bytes(rows.serialize().to_pybytes())

    @classmethod
    def of_bytes(cls, data: bytes) -> CodedBuckets:
        """Parse the bytes of `to_bytes`."""
        rows = pa.ipc.read_record_batch(pa.py_buffer(data), _BUCKETS_SCHEMA)
        partitions, buckets, key_counts = (column.to_pylist() for column in rows.columns)
        return cls([BucketId(*pair) for pair in zip(partitions, buckets, strict=True)], key_counts)


@dataclass(frozen=True, slots=True)
class ShareFiles:
    """The files of one key share.

    Attributes:
        index_folder: the folder of the table's indexes.
        share: the number of the key share.
        key_schema: the key columns.
    """

    index_folder: Path
    share: int
    key_schema: pa.Schema

    @property
    def folder(self) -> Path:
        """The folder of the key share's files."""
        return self.index_folder / f"share-{self.share}"

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder against this machine's other processes."""
        with locked_folder(self.folder):
            yield

    def spans(self) -> list[LayerSpan]:
        """Return the version ranges of the existing layers."""
        return [_span(path) for path in self.folder.glob("*" + _SUFFIX)]

    def read(self, spans: Sequence[LayerSpan]) -> tuple[list[KeyLayer], CodedBuckets]:
        """Read layers, and the buckets that the last of them records.

        Raises:
            OSError, pa.ArrowInvalid: a layer is missing or damaged.
        """
        layers: list[KeyLayer] = []
        coded_buckets = CodedBuckets()
        for span in spans:
            rows = pa.ipc.open_file(pa.memory_map(str(self._path(span)))).get_batch(0)
            batch = pa.RecordBatch.from_arrays(rows.columns[2:], schema=self.key_schema)
            hashes, bucket_codes = (column.to_numpy() for column in rows.columns[:2])
            layers.append(KeyLayer(Keys(hashes, batch), bucket_codes))
            coded_buckets = CodedBuckets.of_bytes(rows.schema.metadata[_BUCKETS_KEY])
        return layers, coded_buckets

    def write(
        self,
        layer: KeyLayer,
        coded_buckets: CodedBuckets,
        start: LayerSnapshot | None,
        end: LayerSnapshot,
    ) -> LayerSpan:
        """Write a layer, and return its span."""
        span = LayerSpan(start, end, len(layer.bucket_codes))
        fields = [
            pa.field(HASH_COLUMN, pa.int32()),
            pa.field(BUCKET_CODE, pa.int32()),
            *self.key_schema,
        ]
        schema = pa.schema(fields, metadata={_BUCKETS_KEY: coded_buckets.to_bytes()})
        columns = [
            pa.array(layer.keys.hashes, pa.int32()),
            pa.array(layer.bucket_codes, pa.int32()),
            *layer.keys.batch.columns,
        ]
        path = self._path(span)
        temporary_path = path.with_suffix(f".{os.getpid()}")
        with temporary_path.open("wb") as file:
            with pa.ipc.new_file(file, schema) as writer:
                writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
            file.flush()
            os.fsync(file.fileno())
        temporary_path.replace(path)
        return span

    def delete_other_layers(self, spans: Sequence[LayerSpan]) -> None:
        """Delete the layers of other spans. A process that has mapped a layer can still read it."""
        live_paths = {self._path(span) for span in spans}
        for path in self.folder.iterdir():
            if path not in live_paths and path.name != _LOCK:
                path.unlink(missing_ok=True)

    def age_ms(self, span: LayerSpan, now_ms: int) -> int:
        """Return the age of a layer's file in milliseconds."""
        return now_ms - int(self._path(span).stat().st_mtime * 1000)

    def _path(self, span: LayerSpan) -> Path:
        start = _ALL if span.start is None else _version_name(span.start)
        return self.folder / f"{start}-{_version_name(span.end)}-{span.row_count}{_SUFFIX}"


@contextlib.contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, which is created if missing."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (folder / _LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _version_name(version: LayerSnapshot) -> str:
    return f"{version.snapshot_id}_{version.name}"


def _version(text: str) -> LayerSnapshot:
    snapshot_id, _, name = text.partition("_")
    return LayerSnapshot(int(snapshot_id), name)


def _span(path: Path) -> LayerSpan:
    start, end, rows = path.name.removesuffix(_SUFFIX).split("-")
    return LayerSpan(None if start == _ALL else _version(start), _version(end), int(rows))
