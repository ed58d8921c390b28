"""One bucket's compactions, of a table without keys: neighbouring files become one.

Owned by `bucketed_append_compact_coordinator`. It differs from the bucket of a table with keys in
what is picked, and in that writes never wait for it: more files make reading slower, not wrong.

Source: seed document 000 §4.6, Paimon `append/BucketedAppendCompactManager.java`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stream_app.mergetree.compact.compact_executor import CompactExecutor
from stream_app.mergetree.compact.compact_manager import CompactManager
from stream_app.mergetree.compact.compact_unit import CompactResult
from stream_app.model.data_file_meta import DataFileMeta
from stream_app.planning.bucketed_append_compaction import (
    Files,
    in_sequence,
    pick_compact_before,
    pick_full,
)
from stream_app.table.append_compact_task import append_request


@dataclass(slots=True, kw_only=True)
class BucketedAppendCompactManager(CompactManager):
    """Queue and the one running compaction of a bucket; `policy` is not used.

    Attributes:
        target_file_size, compaction_file_size: bytes.
        min_file_num: neighbours that are worth a compaction.
        writes_only: the bucket is never compacted here.
        queue: files that a compaction may still pick.
    """

    target_file_size: int
    compaction_file_size: int
    min_file_num: int
    writes_only: bool
    queue: Files = ()

    def __post_init__(self) -> None:
        self.queue = in_sequence(self.levels.all_files())

    def add_new_file(self, file: DataFileMeta) -> None:
        """Take in a committed file."""
        CompactManager.add_new_file(self, file)
        self.queue = in_sequence((*self.queue, file))

    def trigger_compaction(
        self,
        executor: CompactExecutor,
        *,
        hour: int,  # noqa: ARG002 - off-peak hours are for sorted runs
        full: bool = False,
    ) -> bool:
        """Begin the next compaction when one is due and none runs; True when one was begun."""
        if self.writes_only or self._running is not None:
            return False
        if full:
            rest: Files = ()
            picked = pick_full(
                self.queue,
                compaction_file_size=self.compaction_file_size,
                rewrite_all=self.rewrite_all,
            )
        else:
            picked, rest = pick_compact_before(
                self.queue,
                target_file_size=self.target_file_size,
                min_file_num=self.min_file_num,
            )
        self.queue = rest
        if not picked:
            return False
        reason = "full" if full else f"{len(picked)} neighbours"
        request = append_request(self.partition, self.bucket, picked, reason)
        self._unit = request.unit
        self._running = executor.submit(request)
        return True

    def apply(self, result: CompactResult) -> None:
        """The committer has published `result`. A small last file may be picked again."""
        self._unit = None
        CompactManager.apply(self, result)
        last = result.after[-1:]
        if last and last[0].file_size < self.compaction_file_size:
            self.queue = in_sequence((*self.queue, *last))

    def forget_running(self) -> None:
        """The compaction failed or lost a conflict; its files may be picked again."""
        if self._unit is not None:
            self.queue = in_sequence((*self.queue, *self._unit.files))
        CompactManager.forget_running(self)

    def restore(self, files: Iterable[DataFileMeta], *, num_levels: int) -> None:
        """Believe the table again, after another writer changed this bucket."""
        CompactManager.restore(self, files, num_levels=num_levels)
        running = {file.file_name for file in self._unit.files} if self._unit else set()
        self.queue = in_sequence(
            file for file in self.levels.all_files() if file.file_name not in running
        )
