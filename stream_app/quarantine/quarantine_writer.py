"""Writes the quarantine: records that could not be stored, unchanged and with the reason.

The driver writes one file of JSON lines for each epoch, before it commits the epoch. A repeated
epoch writes the same file again, so no bad record is lost or duplicated. A file of that name with
other content, of an earlier checkpoint or of other settings, is kept as ``epoch-N.old-K.jsonl``.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from stream_app.cdc.bad_reasons import reason_counts
from stream_app.checkpoint.job_folder import JobFolder
from stream_app.errors import BadRecordsError
from stream_app.quarantine.quarantine_line import QUARANTINE_FILE, REPLACED_FILE, lines_of

_SHOWN_RECORDS_MAX = 3
"""Bad records that an error shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineReport:
    """A report of the bad records of an epoch.

    Attributes:
        file: the file with the records, or None if they are not stored.
        first_text: place and reason of the first record, in words.
        reasons: number of records of each kind of `bad_reasons.REASON_KINDS`.
    """

    file: str | None
    first_text: str
    reasons: Mapping[str, int]


@dataclass(slots=True)
class QuarantineWriter:
    """A writer of one quarantine, which counts the bad records of a run.

    Attributes:
        folder: the folder of the quarantine, or None without one.
        bad_records_max: the number of bad records above which the job stops, or None without a
            limit.
    """

    folder: JobFolder | None
    bad_records_max: int | None
    _count: int = field(init=False, default=0)

    def write(self, epoch: int, bad_records: pa.Table) -> QuarantineReport | None:
        """Store an epoch's bad records, and describe them; None if there are none.

        Args:
            bad_records: a table of `BAD_RECORD_SCHEMA`.

        Raises:
            BadRecordsError: the run has exceeded the limit.
        """
        count = bad_records.num_rows
        if not count:
            return None
        file = None if self.folder is None else _write(self.folder, epoch, bad_records)
        self._count += count
        first_texts = [
            _record_text(line) for line in lines_of(bad_records.slice(0, _SHOWN_RECORDS_MAX))
        ]
        if self.bad_records_max is None or self._count <= self.bad_records_max:
            reasons = reason_counts(bad_records.column("reason").to_pylist())
            return QuarantineReport(file=file, first_text=first_texts[0], reasons=reasons)
        file_hint = "" if file is None else f"; all of this epoch are in {file}"
        raise BadRecordsError(
            f"{self._count} records could not be stored, {self.bad_records_max} are allowed",
            where="; ".join(first_texts) + file_hint,
            fix="raise stream.max-bad-records, or fix the source; without stream.quarantine the "
            "first bad record stops the job",
        )


def _write(folder: JobFolder, epoch: int, bad_records: pa.Table) -> str:
    """Write an epoch's file atomically and durably, and return its path."""
    path = folder.path(QUARANTINE_FILE.format(epoch=epoch))
    lines = (json.dumps(line, ensure_ascii=False) for line in lines_of(bad_records))
    data = "".join(f"{line}\n" for line in lines).encode()
    earlier_data = _content(folder, path)
    if earlier_data is not None and earlier_data != data:
        _keep_replaced_file(folder, epoch, earlier_data)
    if earlier_data != data:
        folder.file_io.overwrite(path, data)
    return path


def _record_text(line: Mapping[str, Any]) -> str:
    where = f"topic {line['topic']}, partition {line['partition']}, offset {line['offset']}"
    return f"{where}: {line['reason']}"


def _keep_replaced_file(folder: JobFolder, epoch: int, data: bytes) -> None:
    """Keep an earlier file under the first free name, unless a crashed run saved the same data."""
    for file_number in itertools.count(1):
        path = folder.path(REPLACED_FILE.format(epoch=epoch, number=file_number))
        content = _content(folder, path)
        if content is None:
            folder.file_io.overwrite(path, data)
        if content is None or content == data:
            return


def _content(folder: JobFolder, path: str) -> bytes | None:
    try:
        return folder.file_io.read_bytes(path)
    except FileNotFoundError:
        return None
