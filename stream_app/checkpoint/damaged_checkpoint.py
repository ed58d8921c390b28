"""Finds files of a local checkpoint that a power cut has left empty.

A job with the native reader syncs its files. Spark does not, so after a power cut its newest files
may be empty, or missing although their checksum exists.

Source: Spark `CheckpointFileManager.scala`; Hadoop `ChecksumFs.renameInternal`.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path

from stream_app.checkpoint.epoch_log import LOST_FIX
from stream_app.errors import CheckpointError

_LOG = logging.getLogger(__name__)
_FINAL_NAME = re.compile(r"\.(\d+(?:\.\w+)?|metadata)\.crc")
"""The names of finished files' checksums; that of an unfinished file precedes its file."""


def check_whole(checkpoint: Path) -> None:
    """Refuse a checkpoint in which a file of Spark is empty, and delete stale checksums.

    Raises:
        CheckpointError: files are empty; the error names them.
    """
    if empty_names := empty_files(checkpoint):
        raise CheckpointError(
            f"the checkpoint has empty files, as after a power cut: {', '.join(empty_names)}",
            where=str(checkpoint),
            fix=LOST_FIX,
        )
    _clear_stale_checksums(checkpoint)


def empty_files(checkpoint: Path) -> list[str]:
    """Return Spark's files that are empty or contain only zeros, as after a power cut."""
    files = [checkpoint / "metadata"]
    for folder in ("offsets", "commits", "sources/0"):
        files += sorted((checkpoint / folder).glob("[0-9]*"))
    return [
        str(file.relative_to(checkpoint))
        for file in files
        if file.is_file() and not file.read_bytes().strip(b"\0")
    ]


def _clear_stale_checksums(checkpoint: Path) -> None:
    """Delete checksums without a file, because Spark would report another job.

    Hadoop keeps ``.7.crc`` beside the file ``7``, and renames it after the file. If the file is
    missing, renaming the next ``7`` fails, and Spark reports that several queries use the
    checkpoint. But a checksum without its file does not prove that there is another job.
    """
    for checksum in sorted(checkpoint.rglob(".*.crc")):
        match = _FINAL_NAME.fullmatch(checksum.name)
        if match is not None and not (checksum.parent / match[1]).exists():
            checksum.unlink(missing_ok=True)
            _LOG.warning("deleted %s, a checksum whose file is gone", checksum)
