"""Merges sections as `CompactRewriter` does, and writes each key's change since its old row.

`table.compact.keyed.keyed_compaction` makes it, and `compact_task` runs it on an executor.

Source: Paimon `mergetree/compact/ChangelogMergeTreeRewriter.java`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from stream_app.mergetree.changelog.before_row_lookup import BeforeRowLookup, Upgrade, WindowBefore
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
    """A rewriter of one bucket's sections, which it compares with the old rows.

    It reads all runs of a section at once, because merging some of them first would lose earlier
    rows.

    Attributes:
        writes_changelog: whether to write the changes to changelog files.
        drops_moved_deletes: whether a file that is rewritten when it moves up loses its deletes.
        records_unchanged: whether to write updates with unchanged values
            (``changelog-producer.row-deduplicate`` = false).
        ignored_columns: columns whose change alone counts as no change if `records_unchanged` is
            false.
    """

    rewriter: CompactRewriter
    before_row_lookup: BeforeRowLookup
    writes_changelog: bool = True
    drops_moved_deletes: bool = False
    records_unchanged: bool = True
    ignored_columns: frozenset[str] = frozenset()

    @property
    def file_access(self) -> KeyValueFileAccess:
        """The bucket's files."""
        return self.rewriter.file_access

    def rewrite(
        self, sections: Sequence[Section], *, output_level: int, drops_deletes: bool
    ) -> WrittenFiles:
        """Merge sections in key order; return data files, and changelog files if any.

        Raises:
            CorruptFileError: an input file cannot be read; nothing that was written stays.
        """
        if not self.before_row_lookup.records_changes(sections, output_level):
            return self.rewriter.rewrite(
                sections, output_level=output_level, drops_deletes=drops_deletes
            )
        data_writer = self.file_access.data_writer(
            level=output_level, file_source=FileSource.COMPACT
        )
        return self._merge_sections(
            sections, data_writer, output_level, drops_deletes=drops_deletes
        )

    def upgrade(self, file: DataFileMeta, output_level: int) -> WrittenFiles:
        """Move a file that overlaps no other, and write a changelog of its new rows.

        Raises:
            CorruptFileError: as `rewrite`.
        """
        section: Section = (SortedRun((file,)),)
        match self.before_row_lookup.upgrade(file, output_level):
            case Upgrade.MOVE:
                return self.rewriter.upgrade(file, output_level)
            case Upgrade.RECORD if not (self.writes_changelog or self.drops_moved_deletes):
                return self.rewriter.upgrade(file, output_level)
            case Upgrade.RECORD:
                rewrite_result = self._merge_sections(
                    [section], None, output_level, drops_deletes=False
                )
                return WrittenFiles(
                    self.rewriter.upgrade(file, output_level).added_files,
                    rewrite_result.changelog_files,
                )
            case Upgrade.REWRITE:
                data_writer = self.file_access.data_writer(
                    level=output_level, file_source=FileSource.COMPACT
                )
                return self._merge_sections(
                    [section], data_writer, output_level, drops_deletes=self.drops_moved_deletes
                )

    def _merge_sections(
        self,
        sections: Sequence[Section],
        data_writer: KeyValueFileWriter | None,
        level: int,
        *,
        drops_deletes: bool,
    ) -> WrittenFiles:
        """Merge sections window by window into data files, changelog files, or both."""
        rewriter = self.rewriter
        changelog_writer = (
            self.file_access.changelog_writer(level=level) if self.writes_changelog else None
        )
        with ExitStack() as undo:
            for writer in filter(None, (data_writer, changelog_writer)):
                undo.callback(writer.abort)
            for level_window in self._windows(sections):
                before = self.before_row_lookup.look_up(level_window)
                merged_rows = rewriter.merge_function.merge(
                    before.window, rewriter.layout, merges_single_rows=before.merges_single_rows
                )
                rows = rewriter.without_stale_rows(merged_rows) if drops_deletes else merged_rows
                if data_writer is not None and rows.num_rows:
                    data_writer.write(rows)
                if changelog_writer is not None:
                    changes = self._changes(level_window, before, merged_rows)
                    if changes.num_rows:
                        changelog_writer.write(changes)
            files = [
                () if writer is None else writer.close()
                for writer in (data_writer, changelog_writer)
            ]
            written_files = WrittenFiles(added_files=files[0], changelog_files=files[1])
            undo.pop_all()
        return written_files

    def _changes(
        self, level_window: LevelWindow, before: WindowBefore, merged_rows: pa.RecordBatch
    ) -> pa.RecordBatch:
        """Return the changes by which a window's old rows become the merged ones."""
        layout, may_change = self.rewriter.layout, before.may_change
        if not may_change.all():
            if merged_rows.num_rows == len(may_change):
                merged_rows = rows_at(merged_rows, np.flatnonzero(may_change))
            else:
                # The merge engine has dropped keys.
                first_indices = level_window.order[level_window.starts[may_change]]
                merged_rows, _ = rows_of_keys(
                    layout, merged_rows, rows_at(level_window.window.batch, first_indices)
                )
        if before.old_rows is None:
            return merged_rows
        without_stale_rows = self.rewriter.without_stale_rows
        differences = batch_differences(
            layout, without_stale_rows(before.old_rows), without_stale_rows(merged_rows)
        )
        if self.records_unchanged:
            return differences.changelog()
        is_same = differences.has_same_values(self.ignored_columns, compares_as_numbers=True)
        return differences.changelog(~is_same)

    def _windows(self, sections: Sequence[Section]) -> Iterator[LevelWindow]:
        for section in sections:
            yield from level_windows(runs_by_age(section), self.file_access, self.rewriter.layout)
