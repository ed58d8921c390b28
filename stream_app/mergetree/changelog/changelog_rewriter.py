"""Merges sections as `CompactRewriter` does, and writes the changes since the earlier rows.

Source: Paimon `mergetree/compact/ChangelogMergeTreeRewriter.java`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from stream_app.mergetree.changelog.before_rows import BeforeRows, Upgrade, WindowBefore
from stream_app.mergetree.compact.compact_rewriter import CompactRewriter
from stream_app.mergetree.file_access import KeyValueFileAccess, KeyValueFileWriter, WrittenFiles
from stream_app.mergetree.interval_partition import Section, runs_by_age
from stream_app.mergetree.key_differences import batch_differences, rows_of_keys
from stream_app.mergetree.key_value_batch import rows_at
from stream_app.mergetree.sort_merge_reader import LevelWindow, level_windows
from stream_app.mergetree.sorted_run import SortedRun
from stream_app.model.files.data_file_meta import DataFileMeta, FileSource


@dataclass(frozen=True)
class ChangelogRewriter:
    """A rewriter of one bucket's sections, which it compares with the earlier rows.

    It reads all runs of a section at once, because merging some of them first would lose earlier
    rows.

    Attributes:
        writes_changelog: whether to write the changes to changelog files.
        drops_moved_deletes: whether a file that is rewritten when it moves up loses its deletes.
        records_unchanged: whether to write updates with unchanged values
            (``changelog-producer.row-deduplicate`` = false).
        ignored: columns whose change alone is no update if `records_unchanged` is false.
    """

    merging: CompactRewriter
    before: BeforeRows
    writes_changelog: bool = True
    drops_moved_deletes: bool = False
    records_unchanged: bool = True
    ignored: frozenset[str] = frozenset()

    @property
    def files(self) -> KeyValueFileAccess:
        """The bucket's files."""
        return self.merging.files

    def rewrite(
        self, sections: Sequence[Section], *, output_level: int, drop_deletes: bool
    ) -> WrittenFiles:
        """Merge sections in key order; return data files, and changelog files as `before` decides.

        Raises:
            CorruptFileError: an input file cannot be read; nothing that was written stays.
        """
        if not self.before.records_changes(sections, output_level):
            return self.merging.rewrite(
                sections, output_level=output_level, drop_deletes=drop_deletes
            )
        data = self.files.data_writer(level=output_level, source=FileSource.COMPACT)
        return self._merge_sections(sections, data, output_level, drop_deletes=drop_deletes)

    def upgrade(self, file: DataFileMeta, output_level: int) -> WrittenFiles:
        """Move a file that overlaps no other, and write a changelog of its new rows.

        Raises:
            CorruptFileError: as `rewrite`.
        """
        section: Section = (SortedRun((file,)),)
        match self.before.upgrade(file, output_level):
            case Upgrade.MOVE:
                return self.merging.upgrade(file, output_level)
            case Upgrade.RECORD if not (self.writes_changelog or self.drops_moved_deletes):
                return self.merging.upgrade(file, output_level)
            case Upgrade.RECORD:
                rewritten = self._merge_sections([section], None, output_level, drop_deletes=False)
                return WrittenFiles(
                    self.merging.upgrade(file, output_level).data, rewritten.changelog
                )
            case Upgrade.REWRITE:
                data = self.files.data_writer(level=output_level, source=FileSource.COMPACT)
                return self._merge_sections(
                    [section], data, output_level, drop_deletes=self.drops_moved_deletes
                )

    def _merge_sections(
        self,
        sections: Sequence[Section],
        data: KeyValueFileWriter | None,
        level: int,
        *,
        drop_deletes: bool,
    ) -> WrittenFiles:
        """Merge sections window by window into data files, changelog files, or both."""
        merging, writes = self.merging, self.writes_changelog
        changelog = self.files.changelog_writer(level=level) if writes else None
        with ExitStack() as undo:
            for writer in filter(None, (data, changelog)):
                undo.callback(writer.abort)
            for window in self._windows(sections):
                part = self.before.before(window)
                merged = merging.merge_function.merge(
                    part.window, merging.layout, also_alone=part.also_alone
                )
                fresh = merging.without_stale(merged)
                rows = fresh if drop_deletes else merged
                if data is not None and rows.num_rows:
                    data.write(rows)
                if changelog is not None:
                    changes = self._changes(window, part, merged)
                    if changes.num_rows:
                        changelog.write(changes)
            files = [w.close() if w is not None else () for w in (data, changelog)]
            written = WrittenFiles(data=files[0], changelog=files[1])
            undo.pop_all()
        return written

    def _changes(
        self, window: LevelWindow, part: WindowBefore, merged: pa.RecordBatch
    ) -> pa.RecordBatch:
        """Return the changes by which a window's earlier rows become the merged ones."""
        layout, may_change = self.merging.layout, part.may_change
        if not may_change.all():
            if merged.num_rows == len(may_change):
                merged = rows_at(merged, np.flatnonzero(may_change))
            else:
                # The merge engine has dropped keys.
                firsts = window.order[window.starts[may_change]]
                merged, _ = rows_of_keys(layout, merged, rows_at(window.window.batch, firsts))
        if part.before is None:
            return merged
        stale = self.merging.without_stale
        sides = batch_differences(layout, stale(part.before), stale(merged))
        if self.records_unchanged:
            return sides.changelog()
        return sides.changelog(~sides.same_values(self.ignored, as_numbers=True))

    def _windows(self, sections: Sequence[Section]) -> Iterator[LevelWindow]:
        for section in sections:
            yield from level_windows(runs_by_age(section), self.files, self.merging.layout)
