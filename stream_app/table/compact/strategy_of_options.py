"""The compaction strategy that a table's options ask for.

Source: Paimon `mergetree/compact/MergeTreeCompactManagerFactory.java#createCompactStrategy`.
"""

from __future__ import annotations

from stream_app.mergetree.compact.compact_strategy import CompactStrategy
from stream_app.mergetree.compact.force_up_level0_compaction import ForceUpLevel0Compaction
from stream_app.mergetree.compact.universal_compaction import (
    EarlyFullCompaction,
    OffPeakHours,
    UniversalCompaction,
)
from stream_app.model.merge_engine import traits_of
from stream_app.model.options.core_options import CoreOptions


def compact_strategy(options: CoreOptions) -> CompactStrategy:
    """The universal rules with the table's settings, and around them what lifts level 0."""
    universal = UniversalCompaction(
        max_size_amplification_percent=options.integer("compaction.max-size-amplification-percent"),
        size_ratio=options.integer("compaction.size-ratio"),
        run_count_trigger=options.compaction_trigger,
        early=EarlyFullCompaction(
            interval_ms=options.optional_integer("compaction.optimization-interval"),
            total_size=options.optional_integer("compaction.total-size-threshold"),
            incremental_size=options.optional_integer("compaction.incremental-size-threshold"),
        ),
        off_peak=_off_peak_hours(options),
    )
    if options.boolean("force-lookup") or traits_of(options.merge_engine).needs_lookup:
        is_gentle = options.text("lookup-compact") == "gentle"
        return ForceUpLevel0Compaction(universal, options.lookup_interval if is_gentle else None)
    if options.boolean("compaction.force-up-level-0"):
        return ForceUpLevel0Compaction(universal)
    return universal


def _off_peak_hours(options: CoreOptions) -> OffPeakHours | None:
    start = options.integer("compaction.offpeak.start.hour")
    end = options.integer("compaction.offpeak.end.hour")
    if -1 in (start, end):
        return None
    return OffPeakHours(start, end, options.integer("compaction.offpeak-ratio"))
