"""The files in which a compaction has to look for the older rows of its keys.

Sees metadata only.

Source: Paimon `mergetree/LookupLevels.java`, `LookupUtils.java`.
"""

from __future__ import annotations

from collections.abc import Iterable

from stream_app.mergetree.compact.compact_unit import CompactUnit
from stream_app.mergetree.sorted_run import KeyOrder, LevelSortedRun
from stream_app.model.data_file_meta import DataFileMeta


def files_above(
    runs: Iterable[LevelSortedRun], unit: CompactUnit, key_of: KeyOrder
) -> tuple[DataFileMeta, ...]:
    """The files above a unit's output that can hold keys of its level 0."""
    spans = [(key_of(f.min_key), key_of(f.max_key)) for f in unit.files if f.level == 0]
    return tuple(
        file
        for level_run in runs
        if level_run.level > unit.output_level
        for file in level_run.run.files
        if any(
            key_of(file.min_key) <= greatest and least <= key_of(file.max_key)
            for least, greatest in spans
        )
    )
