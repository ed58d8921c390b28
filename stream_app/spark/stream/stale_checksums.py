"""Deletes orphan checksums of a local checkpoint: Spark would take them for another job.

On local disks Hadoop keeps ``.7.crc`` beside the file ``7``, and renames it after the file. A crash
of the machine, or a user, may remove the file and leave the checksum. Then renaming the next ``7``
fails, and Spark reports that several queries use the checkpoint. A checksum without its file proves
no other job, so it is deleted.

Source: Hadoop `ChecksumFs.renameInternal`; Spark `CheckpointFileManager.scala`.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path

_LOG = logging.getLogger(__name__)
_FINAL_NAME = re.compile(r"\.(\d+(?:\.\w+)?|metadata)\.crc")
"""Excludes checksums of unfinished files, which precede their file."""


def clear_stale_checksums(checkpoint: Path) -> None:
    """Delete checksums without a file."""
    for found in sorted(checkpoint.rglob(".*.crc")):
        name = _FINAL_NAME.fullmatch(found.name)
        if name is not None and not (found.parent / name[1]).exists():
            found.unlink(missing_ok=True)
            _LOG.warning("deleted %s, a checksum whose file is gone", found)
