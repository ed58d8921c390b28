"""Decides from which source table a job of one table takes records, and when the job must stop.

Rows of several source tables would share one primary key: deleting order 6 would delete customer 6.
The first epoch with rows decides: the table with most records becomes the job's own, and the job's
state records it. A few records of other tables become bad records
(`pipeline_steps.own_message_decoder`). Many show that the job reads the wrong topics, and stop it.
`round_commits` calls this module before it commits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from stream_app.cdc.pipeline_steps.own_message_decoder import SourceFilter
from stream_app.checkpoint.job_state import (
    ONLY_TABLE,
    JobStateFile,
    SourceTableNames,
    with_source_tables,
)
from stream_app.epochs.stages.decode_counts import DecodeCounts
from stream_app.errors import WrongSourceError
from stream_app.model.first_texts import first_texts

SHARDS_FIX = (
    "give each table of the source a job and a table of its own; if they are shards of one table, "
    "with a primary key that distinguishes the rows of all, set source.merge-shards = true"
)
OTHERS_MAX = 10
"""The number of other tables' records that never stops the job, unless they are the majority."""
OTHERS_SHARE_MAX = 0.1
"""The share of other tables' records in an epoch that never stops the job."""
_SHOWN_TEXTS_MAX = 5
Records = Mapping[tuple[str, str], int]
"""Topic and name of a source table → its records; the name may be empty."""


def distinct_tables(source_tables: SourceTableNames) -> dict[str, str]:
    """Return the different tables of the source, each with a topic that carries it.

    Args:
        source_tables: the names in the records of each topic; a record without a name has the empty
            name. A topic with only such records counts as a table.
    """
    tables: dict[str, str] = {}
    for topic, names in sorted(source_tables.items()):
        table_names = sorted(name for name in names if name)
        for name in table_names or [_nameless_table(topic)]:
            tables.setdefault(name, topic)
    return tables


def _nameless_table(topic: str) -> str:
    return f"the table of topic {topic}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceVerdict:
    """The decision from which source table a job accepts records.

    Attributes:
        own_name: the source table whose records the job accepts; empty before one is known.
        foreign_sources: topics and names of the source tables whose records the job refuses.
        is_refused: whether the records of other source tables are too many for the job.
    """

    own_name: str = ""
    foreign_sources: frozenset[tuple[str, str]] = frozenset()
    is_refused: bool = False


def verdict_on(
    earlier_tables: SourceTableNames, records: Records, quarantined_count: int = 0
) -> SourceVerdict:
    """Choose the source table of a job.

    Args:
        earlier_tables: the known tables of earlier epochs, all of one source table.
        records: the source tables' records that have rows.
        quarantined_count: records of others that are bad already.
    """
    source_tables = with_source_tables(earlier_tables, records)
    tables = distinct_tables(source_tables)
    counts: Counter[str] = Counter()
    for (topic, name), count in records.items():
        counts[_table_of(topic, name, source_tables[topic], tables)] += count
    own_tables = distinct_tables(earlier_tables)
    own_name = next(iter(own_tables), "")
    # A source may begin to name its table.
    table_names = {name for topic, name in records if name and own_name == _nameless_table(topic)}
    if table_names or not own_name:
        own_name = max(table_names or counts, key=lambda name: (counts[name], name), default="")
    foreign_sources = {
        (topic, name)
        for topic, name in records
        if _table_of(topic, name, source_tables[topic], {own_name: topic}) != own_name
    }
    other_count = quarantined_count + sum(records[source] for source in foreign_sources)
    own_count = sum(records.values()) - sum(records[source] for source in foreign_sources)
    others_max = max(OTHERS_MAX, OTHERS_SHARE_MAX * (other_count + own_count))
    is_unsure = not own_tables and other_count >= own_count
    return SourceVerdict(
        own_name=own_name,
        foreign_sources=frozenset(foreign_sources),
        is_refused=other_count > others_max or (other_count > 0 and is_unsure),
    )


def _table_of(topic: str, name: str, names: Iterable[str], preferred_names: Iterable[str]) -> str:
    """Return the source table of records; records without a name belong to their topic's table."""
    if name:
        return name
    tables = [name for name in sorted(names) if name]
    return next(
        (name for name in tables if name in preferred_names), (*tables, _nameless_table(topic))[0]
    )


class SourceTableCheck:
    """The check of a job's source table, which the job's state remembers.

    Attributes:
        source_filter: the source tables whose records the next plan takes.
    """

    def __init__(self, state_file: JobStateFile) -> None:
        self.source_filter = SourceFilter()
        self._state_file = state_file
        # Records of other tables since the job's own last one, by the end of their epoch.
        self._foreign_counts: dict[str, int] = {}

    def begin(self) -> SourceFilter:
        """Return the filter, with what the job remembers."""
        source_tables = self._state_file.state.source_tables_of()
        names = frozenset(
            name for table_names in source_tables.values() for name in table_names if name
        )
        foreign_sources = self.source_filter.foreign_sources
        self.source_filter = SourceFilter(
            own_names=names,
            foreign_sources=foreign_sources,
            is_open=not names and not foreign_sources,
        )
        return self.source_filter

    def admit(self, counts: DecodeCounts, source_filter: SourceFilter) -> bool:
        """Admit an epoch's rows, and record its source tables; or exclude the other tables.

        Args:
            counts: names no tables if several are allowed.
            source_filter: the filter by which its rows were decoded.

        Returns:
            Whether the rows are admitted. If not, they must be decoded again, by the changed
            `source_filter` of this check.

        Raises:
            WrongSourceError: this epoch and those before have many records of several tables, or a
                message of the job's own table stops it.
        """
        if not counts.record_counts and not counts.other_record_count:
            return True
        source_tables = self._state_file.state.source_tables_of()
        records = counts.record_counts
        verdict = verdict_on(source_tables, records, counts.other_record_count)
        can_leave_out = any(source_filter.accepts(*source) for source in verdict.foreign_sources)
        if verdict.is_refused or (verdict.foreign_sources and not can_leave_out):
            raise self._several_tables_error(counts, source_tables)
        if verdict.foreign_sources:
            own_names = frozenset(
                {verdict.own_name} if verdict.own_name in {name for _, name in records} else ()
            )
            self.source_filter = SourceFilter(
                own_names=self.source_filter.own_names | own_names,
                foreign_sources=self.source_filter.foreign_sources | verdict.foreign_sources,
            )
            return False
        if counts.refusal is not None:  # of the job's own table
            raise counts.refusal
        self._note_others(counts, source_tables)
        self._state_file.add_source_tables({ONLY_TABLE: records})
        return True

    def _note_others(self, counts: DecodeCounts, source_tables: SourceTableNames) -> None:
        """Stop after epochs with only other tables' records: the source table was renamed."""
        if any(counts.record_counts.values()):
            self._foreign_counts.clear()
        elif counts.other_record_count:  # a repeated epoch may come here again
            self._foreign_counts[str(counts.last_offsets())] = counts.other_record_count
            if sum(self._foreign_counts.values()) > OTHERS_MAX:
                raise self._several_tables_error(counts, source_tables)

    def _several_tables_error(
        self, counts: DecodeCounts, source_tables: SourceTableNames
    ) -> WrongSourceError:
        tables = distinct_tables(with_source_tables(source_tables, counts.tables))
        texts = [f"{name} (in {topic})" for name, topic in tables.items()]
        places = [
            f"topic {topic}, partition {partition_number}, offset {offset}: "
            f"{name or 'a table that is not named'}"
            for (topic, name), (partition_number, offset) in sorted(counts.tables.items())
        ]
        shown_tables = first_texts(texts, _SHOWN_TEXTS_MAX)
        return WrongSourceError(
            f"the records are of {len(tables)} tables of the source: {shown_tables}",
            where=first_texts(places, _SHOWN_TEXTS_MAX, "; "),
            fix=SHARDS_FIX,
        )
