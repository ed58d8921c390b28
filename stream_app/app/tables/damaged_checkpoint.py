"""Mends a local checkpoint after a power cut, where that is safe, and names what it cannot mend.

Spark does not sync what it writes there. So a power cut may leave its newest files empty, or take a
file and leave the checksum beside it. A job syncs an epoch's offsets before it commits the epoch
(`EpochLog.sync`), and each table tells where its newest epoch ends. So what is lost is known:

* ``commits/N`` says nothing but that Spark goes on behind epoch N: it is written again.
* ``offsets/N`` of an epoch that a table has: it is written again, from the table's snapshot.
* ``offsets/N`` of an epoch that no table has: it is deleted, and Spark plans the epoch anew.

Called before the streaming query starts, and by `doctor`.

Source: Spark `OffsetSeqLog`, `CommitLog`, `CheckpointFileManager.scala`; Hadoop
`ChecksumFs.renameInternal`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stream_app.errors import CheckpointError
from stream_app.fileio.file_io_registry import is_local
from stream_app.fileio.local_file_io import LocalFileIO, local_path
from stream_app.model.job_epoch import JobEpoch
from stream_app.spark.ingest.epoch_log import LOST_FIX, EpochLog
from stream_app.spark.ingest.micro_batch import MicroBatch
from stream_app.table.commit.job_epochs import newest_epoch

_LOG = logging.getLogger(__name__)
_FINAL_NAME = re.compile(r"\.(\d+(?:\.\w+)?|metadata)\.crc")
"""Excludes checksums of unfinished files, which precede their file."""
_NUMBERED = re.compile(r"(offsets|commits)/(\d+)")
_NO_COMMIT = 'v1\n{"nextBatchWatermarkMs":0}'
_NO_SETTINGS = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Mending:
    """How empty files are mended.

    Attributes:
        offsets: epochs whose ends are written again, as the tables tell them.
        commits: epochs that Spark has finished, which is noted again.
        dropped: epochs that Spark plans anew.
        lost: files that nothing can replace.
    """

    offsets: tuple[int, ...] = ()
    commits: tuple[int, ...] = ()
    dropped: tuple[int, ...] = ()
    lost: tuple[str, ...] = ()


def mending(empty: Iterable[str], begun: Collection[int], newest: JobEpoch | None) -> Mending:
    """Decide what becomes of empty files.

    Args:
        empty: names within the checkpoint.
        begun: all epochs that have a file of offsets.
        newest: the newest epoch of the job in any of its tables; None: there is none.
    """
    offsets, commits, dropped, lost = list[int](), list[int](), list[int](), list[str]()
    last = -1 if newest is None else newest.identifier
    for name in sorted(empty):
        found = _NUMBERED.fullmatch(name)
        epoch = int(found[2]) if found else -1
        if found is None or (found[1] == "offsets" and epoch != max(begun)):
            lost.append(name)
        elif found[1] == "commits":
            commits.append(epoch)
        elif epoch > last:
            dropped.append(epoch)
        elif epoch == last and newest is not None and newest.source_end is not None:
            offsets.append(epoch)
        else:
            lost.append(name)
    return Mending(
        offsets=tuple(offsets),
        commits=tuple(epoch for epoch in commits if epoch not in dropped),
        dropped=tuple(dropped),
        lost=tuple(lost),
    )


def empty_files(checkpoint: Path) -> list[str]:
    """Files of Spark's that hold nothing, or nothing but zeros, as after a power cut."""
    names = ["metadata", *_names(checkpoint, "offsets"), *_names(checkpoint, "commits")]
    names += _names(checkpoint, "sources/0")
    return [name for name in names if _is_empty(checkpoint / name)]


def mend_before(location: str, log: EpochLog, batch: MicroBatch[Any]) -> None:
    """Mend the checkpoint of a job that is about to start its query.

    Raises:
        CheckpointError: as `mend_checkpoint`.
    """
    if log.goes_back and is_local(location):
        mend_checkpoint(Path(local_path(location)), _newest(log, batch))


def _newest(log: EpochLog, batch: MicroBatch[Any]) -> Iterator[JobEpoch | None]:
    for feed in batch.feeds:
        yield newest_epoch(feed.job.table.snapshots, log.query_id())
    if not batch.tables.stops:  # epochs of a database that brought no table a change
        yield JobEpoch(identifier=batch.tables.epoch, time_millis=0)


def mend_checkpoint(checkpoint: Path, newest: Iterable[JobEpoch | None]) -> None:
    """Mend what can be mended.

    Args:
        newest: the newest epoch of the job in each of its tables.

    Raises:
        CheckpointError: a file is lost for good.
    """
    empty = empty_files(checkpoint)
    if not empty:
        return
    if "metadata" in empty:
        raise _lost(checkpoint, ["metadata"])
    known = [epoch for epoch in newest if epoch is not None]
    last = max(known, key=lambda each: (each.identifier, each.source_end is not None), default=None)
    begun = [int(name.rpartition("/")[2]) for name in _names(checkpoint, "offsets")]
    plan = mending(empty, begun, last)
    if plan.lost:
        raise _lost(checkpoint, plan.lost)
    end = "" if last is None or last.source_end is None else last.source_end
    for epoch in plan.offsets:
        before = _text(checkpoint / f"offsets/{epoch - 1}") or _NO_SETTINGS
        head = "\n".join(before.splitlines()[:2])
        _replace(checkpoint / f"offsets/{epoch}", f"{head}\n{end}")
        _LOG.warning("offsets/%d was empty: written again, from the end in the table", epoch)
    for epoch in plan.commits:
        before = _text(checkpoint / f"commits/{epoch - 1}") or _NO_COMMIT
        _replace(checkpoint / f"commits/{epoch}", before)
        _LOG.warning("commits/%d of the checkpoint was empty: written again", epoch)
    for epoch in plan.dropped:
        for name in (f"commits/{epoch}", f"offsets/{epoch}"):
            _replace(checkpoint / name, None)
        _LOG.warning("offsets/%d was empty, and no table has the epoch: planned anew", epoch)


def clear_stale_checksums(checkpoint: Path) -> None:
    """Delete checksums without a file: Spark would take them for another job.

    Hadoop keeps ``.7.crc`` beside the file ``7``, and renames it after the file. When the file is
    gone, renaming the next ``7`` fails, and Spark reports that several queries use the checkpoint.
    A checksum without its file proves no other job.
    """
    for found in sorted(checkpoint.rglob(".*.crc")):
        name = _FINAL_NAME.fullmatch(found.name)
        if name is not None and not (found.parent / name[1]).exists():
            found.unlink(missing_ok=True)
            _LOG.warning("deleted %s, a checksum whose file is gone", found)


def _lost(checkpoint: Path, names: Iterable[str]) -> CheckpointError:
    return CheckpointError(
        f"{', '.join(names)} of the checkpoint is empty, as after a power cut",
        where=str(checkpoint),
        fix=LOST_FIX,
    )


def _names(checkpoint: Path, folder: str) -> list[str]:
    found = (checkpoint / folder).glob("[0-9]*")
    return sorted(f"{folder}/{path.name}" for path in found if path.name.isdecimal())


def _is_empty(file: Path) -> bool:
    return file.is_file() and not file.read_bytes().strip(b"\0")


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.is_file() and not _is_empty(file) else ""


def _replace(file: Path, text: str | None) -> None:
    """Write a file anew, or delete it, and its checksum, which is of the old content."""
    (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
    if text is None:
        file.unlink(missing_ok=True)
    else:
        LocalFileIO().overwrite(str(file), text.encode())
