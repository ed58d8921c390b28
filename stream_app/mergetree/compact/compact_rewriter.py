"""Merges sections of overlapping files into new files at a level.

`table.compact.keyed.keyed_compaction` makes it, and `compact_task` runs it on an executor. It
streams, with one batch in memory for each run of a section.

Source: Paimon `mergetree/compact/MergeTreeCompactRewriter.java`, `DropDeleteReader.java`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from stream_app.mergetree.compact.record_level_expire import RecordLevelExpire
from stream_app.mergetree.file_access import KeyValueFileAccess, WrittenFiles
from stream_app.mergetree.interval_partition import Section
from stream_app.mergetree.key_value_batch import KeyValueLayout, retract_mask, rows_at
from stream_app.mergetree.merge_engines.merge_function import MergeFunction
from stream_app.mergetree.merged_section import FAN_IN, merged_section
from stream_app.model.files.data_file_meta import DataFileMeta, FileSource


@dataclass(frozen=True)
class CompactRewriter:
    """A rewriter of one bucket's sections.

    Attributes:
        record_level_expire: the rule for expired rows; None if rows do not expire.
        fan_in: the maximum number of runs to read at a time.
        keeps_deletes: whether a key's newest delete stays as -D; see `EngineTraits`.
    """

    layout: KeyValueLayout
    merge_function: MergeFunction
    file_access: KeyValueFileAccess
    record_level_expire: RecordLevelExpire | None = None
    fan_in: int = FAN_IN
    keeps_deletes: bool = True

    def rewrite(
        self, sections: Sequence[Section], *, output_level: int, drops_deletes: bool
    ) -> WrittenFiles:
        """Merge sections in key order into consecutive files of `output_level`.

        Raises:
            CorruptFileError: an input file cannot be read; the written files are deleted.
        """
        writer = self.file_access.data_writer(level=output_level, file_source=FileSource.COMPACT)
        try:
            for section in sections:
                for batch in merged_section(
                    section, self.layout, self.merge_function, self.file_access, fan_in=self.fan_in
                ):
                    rows = self.without_stale_rows(batch) if drops_deletes else batch
                    if rows.num_rows:
                        writer.write(rows)
            return WrittenFiles(writer.close())
        except BaseException:
            writer.abort()
            raise

    def upgrade(self, file: DataFileMeta, output_level: int) -> WrittenFiles:
        """Move a file by metadata alone."""
        return WrittenFiles((file.at_level(output_level),))

    def without_stale_rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Drop deletes and expired rows, which is safe if they hide no older row."""
        is_stale = retract_mask(batch) if self.keeps_deletes else np.zeros(batch.num_rows, np.bool_)
        if self.record_level_expire is not None:
            is_stale = is_stale | self.record_level_expire.is_expired(batch)
        return rows_at(batch, np.flatnonzero(~is_stale)) if is_stale.any() else batch
