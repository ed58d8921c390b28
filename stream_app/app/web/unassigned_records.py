"""Summarizes the quarantined records that belong to no table, and the refused source tables.

A job quarantines the messages of a source table when it cannot create a table for them. These are
among the records of no table, and the page counts them by source table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import pyarrow as pa

from stream_app.app.ops.replay.record_replay import as_messages
from stream_app.app.web.table_parts import READ_RECORDS_MAX, QuarantinedKind, group_records_by_kind
from stream_app.cdc.source_tables import NO_TABLE, Origins
from stream_app.errors import SparkOnlyError, StreamAppError
from stream_app.model.source.origin import Origin
from stream_app.quarantine.quarantine_folder import Quarantine, QuarantinedRecord
from stream_app.table.storage_errors import storage_error

_REPLAY_FIX = "start the job again, and replay the records, which wait in quarantine"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnassignedFacts:
    """Facts about the records without a table.

    Attributes:
        kinds: the records by kind of reason.
        refused_counts: refused source table → the number of its records.
        error: why the records cannot be read, or None.
    """

    kinds: Sequence[QuarantinedKind] = ()
    refused_counts: Mapping[Origin, int] = field(default_factory=dict)
    error: StreamAppError | None = None


def refused_reason(reason: str) -> str:
    """Return the reason why a source table is refused, with the remedy, for a page."""
    problem, _, fix = reason.partition("; to fix: ")
    fix_text = f"to fix: {fix}; then" if fix else "then"
    return f"{problem}\n{fix_text} {_REPLAY_FIX}"


def with_refused(
    unresolved_counts: Mapping[str, int] | None, refused_counts: Mapping[Origin, int]
) -> Mapping[str, int] | None:
    """Return the counts of unresolved records by table, with refused source tables as tables.

    Args:
        unresolved_counts: table → its unresolved records; '' has those of no table. None if they
            are not counted.
        refused_counts: refused source table → the number of its records.
    """
    if unresolved_counts is None:
        return None
    counts_by_name = {str(origin): count for origin, count in refused_counts.items()}
    unassigned_count = max(0, unresolved_counts.get("", 0) - sum(counts_by_name.values()))
    named_counts = {name: count for name, count in unresolved_counts.items() if name}
    return {**named_counts, **counts_by_name, "": unassigned_count}


@dataclass(slots=True)
class UnassignedFactsCache:
    """A cache of the facts about records without a table, valid until their folder changes.

    It is thread-safe.

    Attributes:
        open_quarantine: opens the quarantine; returns None without one.
        find_origins: extracts the source tables of messages, in the job's format.
        read_stored_origins: returns the source tables that the job stores.
    """

    open_quarantine: Callable[[], Quarantine | None]
    find_origins: Callable[[pa.RecordBatch], Origins]
    read_stored_origins: Callable[[], Collection[Origin]]
    _files: Hashable = field(init=False, default=None)
    _facts: UnassignedFacts = field(init=False, default_factory=UnassignedFacts)

    def facts(self) -> UnassignedFacts:
        """Return the facts about the folder's present records."""
        try:
            quarantine = self.open_quarantine()
            if quarantine is None:
                return UnassignedFacts()
            statuses = quarantine.file_io.list_status(quarantine.location)
            files = frozenset(status for status in statuses if not status.is_folder)
            if self._files != files:
                self._facts = self._read(quarantine)
                self._files = files
            return self._facts
        except SparkOnlyError:
            return UnassignedFacts()  # the quarantine's tile says "unknown"
        except StreamAppError as error:
            return UnassignedFacts(error=error)
        except OSError as error:
            return UnassignedFacts(error=storage_error(error))

    def refused_counts(self) -> Mapping[Origin, int]:
        """Return the refused source tables, except those that the job stores by now."""
        counts = self.facts().refused_counts
        stored_origins = self.read_stored_origins() if counts else ()
        return {origin: count for origin, count in counts.items() if origin not in stored_origins}

    def _read(self, quarantine: Quarantine) -> UnassignedFacts:
        records = list(
            islice(quarantine.iterate_unresolved(is_newest_first=True), READ_RECORDS_MAX)
        )
        return UnassignedFacts(
            kinds=group_records_by_kind(records), refused_counts=self._count_by_origin(records)
        )

    def _count_by_origin(self, records: Sequence[QuarantinedRecord]) -> Mapping[Origin, int]:
        try:
            origins = self.find_origins(as_messages(records))
        except StreamAppError:
            return {}  # a registry is away: the page has the records by their kinds
        counts = Counter(code for code in origins.codes.tolist() if code != NO_TABLE)
        counts_by_origin = {origins.tables[code]: count for code, count in counts.items()}
        return dict(sorted(counts_by_origin.items()))
