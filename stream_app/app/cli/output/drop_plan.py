"""Says what an OVERWRITE snapshot drops, for ``drop-partition`` and ``truncate``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from stream_app.app.text.listing import count_text, size_text
from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.model.files.manifest_entry import ManifestEntry
from stream_app.table.file_store_table import FileStoreTable


def drop_plan_lines(
    table: FileStoreTable, entries: Sequence[ManifestEntry], absent: str
) -> Iterator[str]:
    """Yield each dropped partition, or the whole table, with its numbers of rows and files.

    Args:
        absent: the noun of the message if nothing is dropped.
    """
    if not entries:
        yield f"there is {absent}"
    files_by_partition: dict[bytes, list[DataFileMeta]] = defaultdict(list)
    for entry in entries:
        files_by_partition[entry.partition].append(entry.file)
    for partition, files in files_by_partition.items():
        name = table.paths.partition_path(partition) or "the table"
        rows_text = count_text(sum(file.row_count for file in files), "row")
        freed_text = size_text(sum(file.file_size for file in files))
        yield f"{name}: {count_text(len(files), 'file')}, {rows_text} in files, {freed_text}"
