"""Flushes the writer of one bucket, for tests and benchmarks that write without a `TableWrite`."""

from __future__ import annotations

from stream_app.model.files.bucket_change import BucketChange
from stream_app.table.write.bucket_writer import BucketWriter


def flushed_files(writer: BucketWriter, partition: bytes, bucket: int) -> BucketChange:
    """Flush a writer whose rows omit no value, and return the change of its bucket."""
    files = writer.prepare_commit()
    assert not files.refused_batches, "whole rows are not refused"
    return files.bucket_change(partition, bucket)
