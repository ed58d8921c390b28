"""Finds keys with two rows where readers do not merge: above level 0, under deletion vectors.

So do tables with ``deletion-vectors.enabled``, and those of a merge engine that looks every key up.
Their compactions mark or drop the older row. Only the key columns are read, and only of files that
overlap others.

Source: Paimon `table/source/MergeTreeSplitGenerator.java` (``deletionVectorsEnabled``, FIRST_ROW).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from stream_app.filestore.data.data_file_reader import LiveRowsReader
from stream_app.mergetree.interval_partition import Section, partition_into_sections
from stream_app.mergetree.sort_merge_reader import merge_windows
from stream_app.model.bucket_id import BucketId
from stream_app.model.finding import Finding, FindingKind
from stream_app.model.snapshot import Snapshot
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.read.split_scan import by_bucket
from stream_app.table.versions.deletion_vectors import deletion_vectors
from stream_app.table.versions.file_store_scan import FileStoreScan


@dataclass(frozen=True, slots=True)
class DoubleKeys:
    """Looks for double keys in one snapshot."""

    table: FileStoreTable
    snapshot: Snapshot

    def findings(self) -> Iterator[Finding]:
        """One for each bucket that has any; none where readers merge.

        Raises:
            CorruptFileError: a file cannot be read, which is a finding of another kind.
        """
        if not self.table.skips_level_0:
            return
        live = FileStoreScan(self.table).live(self.snapshot)
        for bucket, files in by_bucket(e for e in live if e.file.level > 0).items():
            sections = partition_into_sections(files, self.table.key_of)
            overlapping = [section for section in sections if len(section) > 1]
            count, example = self._doubled(bucket, overlapping)
            if count:
                yield Finding(
                    kind=FindingKind.DOUBLE_KEYS,
                    what=f"{count} keys have more than one row above level 0, such as {example}; "
                    "readers show them all",
                    where=self.table.paths.bucket(*bucket),
                    fix="merge the bucket whole: stream-app compact --full",
                )

    def _doubled(self, bucket: BucketId, sections: list[Section]) -> tuple[int, str]:
        """How many keys have more than one live row, and the first of them as text."""
        count, example = 0, ""
        if not sections:
            return count, example
        table, nothing = self.table, frozenset[str]()
        keys = table.schema.key_type
        layout = replace(table.layout(keys, system=nothing), sequence_fields=())
        vectors = deletion_vectors(table, self.snapshot, [bucket]).get(bucket, {})
        files = table.bucket_files(*bucket, columns=keys, system=nothing)
        live = LiveRowsReader(files, files, vectors)
        for section in sections:
            runs = ((batch for file in run.files for batch in live.read(file)) for run in section)
            for window in merge_windows([*runs], layout):
                last = window.last_rows(layout)
                if (extra := len(last) - int(last.sum())) == 0:
                    continue
                if not count:
                    place = int((~last).argmax())
                    row = place if window.order is None else int(window.order[place])
                    values = window.batch.slice(row, 1).to_pylist()[0]
                    example = ", ".join(f"{name} = {values[name]}" for name in keys.names)
                count += extra
        return count, example
