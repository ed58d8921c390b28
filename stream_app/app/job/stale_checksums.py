"""Checksums of a local checkpoint whose file is gone: Spark would take them for another job.

On local disks Hadoop keeps ``.7.crc`` beside the file ``7`` and moves it into place after the file.
When a crash of the machine, or somebody's hand, has taken the file and left the checksum, moving
the next ``7`` into place fails, and Spark says that several queries use the checkpoint. A checksum
without its file says nothing of anybody: it goes.

Source: Hadoop `ChecksumFs.renameInternal`; Spark `CheckpointFileManager.scala`.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path

_LOG = logging.getLogger(__name__)
_FINAL_NAME = re.compile(r"\.(\d+(?:\.\w+)?|metadata)\.crc")
"""Not those of files that are being written, which come before their file."""


def clear_stale_checksums(checkpoint: Path) -> None:
    """Delete checksums without a file."""
    for found in sorted(checkpoint.rglob(".*.crc")):
        name = _FINAL_NAME.fullmatch(found.name)
        if name is not None and not (found.parent / name[1]).exists():
            found.unlink(missing_ok=True)
            _LOG.warning("deleted %s, a checksum whose file is gone", found)
