"""Chooses the compaction strategy that a table's options name.

Source: Paimon `mergetree/compact/MergeTreeCompactManagerFactory.java#createCompactStrategy`.
"""

from __future__ import annotations

from collections.abc import Callable

from stream_app.mergetree.compact.compact_strategy import CompactStrategy
from stream_app.mergetree.compact.universal_compaction import (
    EarlyFullCompaction,
    ForceUpLevel0Compaction,
    FullAtRestCompaction,
    OffPeakHours,
    UniversalCompaction,
)
from stream_app.model.options.compaction_options import (
    COMPACTION_FORCE_UP_LEVEL_0,
    COMPACTION_INCREMENTAL_SIZE_THRESHOLD,
    COMPACTION_MAX_SIZE_AMPLIFICATION_PERCENT,
    COMPACTION_OFFPEAK_END_HOUR,
    COMPACTION_OFFPEAK_RATIO,
    COMPACTION_OFFPEAK_START_HOUR,
    COMPACTION_OPTIMIZATION_INTERVAL,
    COMPACTION_SIZE_RATIO,
    COMPACTION_TOTAL_SIZE_THRESHOLD,
    LOOKUP_COMPACT,
)
from stream_app.model.options.core_options import CoreOptions


def compact_strategy(options: CoreOptions) -> CompactStrategy:
    """Return the universal compaction, wrapped if rows stay invisible until a compaction."""
    wrap = _wrapper(options)
    universal = _universal_compaction(options)
    return universal if wrap is None else wrap(universal)


def adaptable_rules(options: CoreOptions) -> UniversalCompaction | None:
    """Return the rules that the policy `auto` may adapt; None if rows wait for compactions."""
    return _universal_compaction(options) if _wrapper(options) is None else None


def _universal_compaction(options: CoreOptions) -> UniversalCompaction:
    return UniversalCompaction(
        max_size_amplification_percent=options[COMPACTION_MAX_SIZE_AMPLIFICATION_PERCENT],
        size_ratio=options[COMPACTION_SIZE_RATIO],
        run_count_trigger=options.compaction_trigger,
        early_full_compaction=EarlyFullCompaction(
            interval_ms=options[COMPACTION_OPTIMIZATION_INTERVAL],
            total_size=options[COMPACTION_TOTAL_SIZE_THRESHOLD],
            incremental_size=options[COMPACTION_INCREMENTAL_SIZE_THRESHOLD],
        ),
        off_peak_hours=_off_peak_hours(options),
    )


def _wrapper(options: CoreOptions) -> Callable[[UniversalCompaction], CompactStrategy] | None:
    """Return what wraps the universal compaction; None if rows are visible without compactions."""
    if options.producer.writes_on_full_compaction:
        return FullAtRestCompaction
    if options.looks_up:
        is_gentle = options[LOOKUP_COMPACT] == "gentle"
        interval = options.lookup_interval if is_gentle else None
        return lambda universal: ForceUpLevel0Compaction(universal, interval)
    return ForceUpLevel0Compaction if options[COMPACTION_FORCE_UP_LEVEL_0] else None


def _off_peak_hours(options: CoreOptions) -> OffPeakHours | None:
    start = options[COMPACTION_OFFPEAK_START_HOUR]
    end = options[COMPACTION_OFFPEAK_END_HOUR]
    if -1 in (start, end):
        return None
    return OffPeakHours(start, end, options[COMPACTION_OFFPEAK_RATIO])
