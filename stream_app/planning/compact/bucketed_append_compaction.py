"""Decides which neighbours among the files of a bucket without keys are put together.

A bucket's rows have an order, so only files that lie beside each other can become one. The queue
holds a bucket's files by sequence number; what has been passed over, or has become large, is not in
it any more.

Source: Paimon `append/BucketedAppendCompactManager.java`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stream_app.model.data_file_meta import DataFileMeta

FULL_COMPACT_MIN_FILE = 3
"""A full compaction of fewer files would gain nothing."""
_FILES_MIN = 2

Files = tuple[DataFileMeta, ...]


def in_sequence(files: Iterable[DataFileMeta]) -> Files:
    """Files of a bucket in the order of their rows."""
    return tuple(sorted(files, key=lambda file: (file.min_sequence_number, file.file_name)))


def pick_compact_before(
    queue: Sequence[DataFileMeta], *, target_file_size: int, min_file_num: int
) -> tuple[Files, Files]:
    """The files to rewrite, none when nothing is due; and the queue that is left.

    A window moves over the queue. It is picked when it has `min_file_num` files; when it holds
    twice the target size before that, its first file is passed over for good.
    """
    window: list[DataFileMeta] = []
    size = 0
    for position, file in enumerate(queue):
        window.append(file)
        size += file.file_size
        if len(window) >= max(_FILES_MIN, min_file_num):
            return tuple(window), tuple(queue[position + 1 :])
        if size >= 2 * target_file_size:
            size -= window.pop(0).file_size
    return (), tuple(window)


def pick_full(
    queue: Sequence[DataFileMeta], *, compaction_file_size: int, rewrite_all: bool
) -> Files:
    """The files that a full compaction rewrites, none when it would gain nothing.

    Args:
        compaction_file_size: files of this size are large. Those at the beginning stay; the rest is
            rewritten when small files are the most of it.
        rewrite_all: rewrite every file, whatever the sizes.
    """
    if rewrite_all:
        return tuple(queue)
    is_large = [file.file_size >= compaction_file_size for file in queue]
    first = is_large.index(False) if False in is_large else len(queue)
    rest = tuple(queue[first:])
    large = sum(is_large[first:])
    worth = len(rest) >= FULL_COMPACT_MIN_FILE and len(rest) - large > large
    return rest if worth else ()
