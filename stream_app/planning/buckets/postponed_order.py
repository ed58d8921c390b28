"""Orders the files of ``bucket-postpone`` as their writers wrote the rows.

Source: Paimon `table/PostponeUtils.java#groupPostponeFiles`.
"""

from __future__ import annotations

from collections.abc import Iterable

from stream_app.model.files.data_file_meta import DataFileMeta

WRITER = "stream_app"
"""The user in the names of files: one for all jobs, so that their files have an order."""


def files_in_write_order(files: Iterable[DataFileMeta]) -> list[DataFileMeta]:
    """Return files of ``bucket-postpone`` in the order in which their rows were written.

    Sequence numbers order stream_app's files, and creation times other engines' files.
    """
    own_files: list[DataFileMeta] = []
    other_files: list[DataFileMeta] = []
    for file in files:
        (own_files if f"-u-{WRITER}-s-" in file.file_name else other_files).append(file)
    other_files.sort(key=lambda file: (file.creation_time_ms or 0, file.min_sequence_number))
    return other_files + sorted(own_files, key=lambda file: file.min_sequence_number)
