"""Runs a compaction section by section.

It upgrades a file that overlaps no other file, which changes only metadata. It merges small files
with their neighbours, and rewrites files that overlap or have rows to drop.
`table.compact.keyed.keyed_compaction` calls it on an executor.

Source: Paimon `mergetree/compact/MergeTreeCompactTask.java`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from stream_app.mergetree.file_access import KeyValueFileAccess, WrittenFiles
from stream_app.mergetree.interval_partition import Section, partition_into_sections
from stream_app.mergetree.sorted_run import SortedRun
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.compact_request import CompactRequest
from stream_app.model.files.data_file_meta import DataFileMeta, KeyOrder


class Rewriter(Protocol):
    """A rewriter of the files of one bucket's sections. See `CompactRewriter`."""

    @property
    def file_access(self) -> KeyValueFileAccess:
        """The bucket's files."""
        ...

    def rewrite(
        self, sections: Sequence[Section], *, output_level: int, drops_deletes: bool
    ) -> WrittenFiles:
        """Merge sections in key order, and return data files and any changelog files.

        Raises:
            CorruptFileError: an input file cannot be read; the written files are deleted.
        """
        ...

    def upgrade(self, file: DataFileMeta, output_level: int) -> WrittenFiles:
        """Move a file without overlaps to a higher level, and return it with any changelog files.

        Raises:
            CorruptFileError: as `rewrite`.
        """
        ...


@dataclass(slots=True)
class CompactTask:
    """One compaction of one bucket.

    Attributes:
        file_size_min: the bytes below which a file without overlaps is merged with its neighbours.
        must_rewrite: returns whether a file has rows that must be dropped.
    """

    request: CompactRequest
    rewriter: Rewriter
    key_of: KeyOrder
    file_size_min: int
    must_rewrite: Callable[[DataFileMeta], bool] = lambda _: False
    _change: BucketChange = field(init=False)
    _pending_sections: list[Section] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self._change = self.request.change()

    def run(self) -> BucketChange:
        """Run the compaction; a failure deletes the new files."""
        try:
            for section in partition_into_sections(self.request.unit.files, self.key_of):
                self._add_section(section)
            self._rewrite_pending_sections()
        except BaseException:
            for file in self._change.written_files:
                self.rewriter.file_access.delete(file)
            raise
        return self._change

    def _add_section(self, section: Section) -> None:
        if len(section) > 1:
            self._pending_sections.append(section)
            return
        for file in section[0].files:
            if file.file_size < self.file_size_min:
                # Collect small files, so that neighbours are merged into one.
                self._pending_sections.append((SortedRun((file,)),))
            else:
                self._rewrite_pending_sections()
                self._upgrade(file)

    def _rewrite_pending_sections(self) -> None:
        sections, self._pending_sections = self._pending_sections, []
        if len(sections) == 1 and len(sections[0]) == 1:
            for file in sections[0][0].files:
                self._upgrade(file)
        elif sections:
            self._rewrite(sections)

    def _upgrade(self, file: DataFileMeta) -> None:
        request = self.request
        # The highest level must have no deletes: readers and later compactions rely on that.
        is_highest = request.unit.output_level == request.max_level
        has_stale_rows = request.drops_deletes and self.must_rewrite(file)
        if request.rewrites_all or has_stale_rows or (is_highest and file.may_have_deletes):
            self._rewrite([(SortedRun((file,)),)])
        elif file.level != request.unit.output_level:
            written_files = self.rewriter.upgrade(file, request.unit.output_level)
            self._add_change((file,), written_files.added_files, written_files.changelog_files)

    def _rewrite(self, sections: list[Section]) -> None:
        request = self.request
        written_files = self.rewriter.rewrite(
            sections,
            output_level=request.unit.output_level,
            drops_deletes=request.drops_deletes,
        )
        removed_files = tuple(file for section in sections for run in section for file in run.files)
        self._add_change(removed_files, written_files.added_files, written_files.changelog_files)

    def _add_change(
        self,
        removed_files: tuple[DataFileMeta, ...],
        added_files: tuple[DataFileMeta, ...],
        changelog_files: tuple[DataFileMeta, ...] = (),
    ) -> None:
        change = self._change
        self._change = replace(
            change,
            removed_files=change.removed_files + removed_files,
            added_files=change.added_files + added_files,
            changelog_files=change.changelog_files + changelog_files,
        )
