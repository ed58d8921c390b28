"""Refuses records of other tables in a job of one table, whose topics may hold such records.

Their rows would share one primary key: row 6 of another table would replace row 6 of the job's own.
So such records are bad. The job decides which source table is its own
(`epochs.rounds.source_table_check`). It examines single messages only in batches with other tables'
records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from stream_app.arrow_buffers import valid_of
from stream_app.cdc.change_batch import (
    DecodedBatch,
    bad_records_with_reasons,
    join_bad_records,
    results_in_batch,
)
from stream_app.cdc.source_tables import NO_TABLE, Origins
from stream_app.errors import WrongSourceError

Decode = Callable[[pa.RecordBatch], DecodedBatch]
_SHOWN_TABLES_MAX = 5
"""The most other source tables that the counts name, because their number may be unlimited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFilter:
    """A condition on records: the source tables whose records a table accepts.

    Attributes:
        own_names: the names of its source table; empty if unknown, or if records do not name it.
        foreign_sources: topics with names of source tables that the table does not accept; a name
            may be empty.
        is_open: whether the job has yet to choose, by the source tables of its first messages.
    """

    own_names: frozenset[str] = frozenset()
    foreign_sources: frozenset[tuple[str, str]] = frozenset()
    is_open: bool = False

    def accepts(self, topic: str, name: str) -> bool:
        """Return whether the table accepts records of this topic and source table."""
        is_other = bool(self.own_names and name) and name not in self.own_names
        return not is_other and (topic, name) not in self.foreign_sources

    def refusal(self, name: str) -> str:
        """Return the reason why the table does not accept a record."""
        own_tables = ", ".join(sorted(self.own_names)) or "another"
        problem = f"is of the source's table {name}" if name else "does not name its source table"
        return f"{problem}, and the rows of this table are those of {own_tables}"


EVERY_SOURCE = SourceFilter()


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnMessageDecoder:
    """A decoder of the messages that a table accepts; the foreign_sources become bad records.

    Attributes:
        find_origins: the reader of the source tables of the messages' format; see
            `message_format.SourceExtractor`.
    """

    find_origins: Callable[[pa.RecordBatch], Origins]
    source_filter: SourceFilter

    def decode_accepted(self, messages: pa.RecordBatch, decode: Decode) -> DecodedBatch:
        """Decode a batch, of which the records of other source tables become bad records.

        It decodes the whole batch, and keeps this result if no message can be another table's.
        Otherwise it decodes the accepted messages alone. If `decode` fails while the filter
        is open, this only counts the records of the batch's source tables.

        Raises:
            WrongSourceError: see `decode`, for an accepted record.
        """
        try:
            decoded_batch = decode(messages)
        except WrongSourceError as error:
            # A TRUNCATE or the columns of another source table must not stop the job.
            if self.source_filter.is_open:
                return self._decode_nothing(messages, decode, error)
            if not self._foreign_names(messages):
                raise
        else:
            topic = messages.column("topic")[0].as_py() if messages.num_rows else ""
            is_own = all(self.source_filter.accepts(topic, name) for name in decoded_batch.tables)
            if len(decoded_batch.tables) <= 1 and is_own and decoded_batch.last_truncate is None:
                if decoded_batch.description is not None and decoded_batch.bad_records.num_rows:
                    # A bad record of another source table must not decide the table's columns.
                    return replace(self._decode_own(messages, decode), other_record_count=0)
                row_count = (
                    messages.num_rows
                    - decoded_batch.bad_records.num_rows
                    - decoded_batch.skipped_count
                )
                return replace(
                    decoded_batch, record_counts=dict.fromkeys(decoded_batch.tables, row_count)
                )
        return self._decode_own(messages, decode)

    def _decode_nothing(
        self, messages: pa.RecordBatch, decode: Decode, error: WrongSourceError
    ) -> DecodedBatch:
        """Count the records of a batch's source tables: the job chooses its own after the epoch.

        Then it decodes the batch again, or ends with the error.
        """
        names = self._names(messages)
        record_counts = Counter(name for name in names if name) or Counter(names)
        tables = {name: names.index(name) for name in record_counts}
        empty_batch = decode(messages.slice(0, 0))
        return replace(empty_batch, tables=tables, record_counts=record_counts, refusal=error)

    def _decode_own(self, messages: pa.RecordBatch, decode: Decode) -> DecodedBatch:
        """Decode a batch with messages of several source tables; see `decode_accepted`."""
        foreign_names = self._foreign_names(messages)
        own_indices = np.delete(np.arange(messages.num_rows, dtype=np.int32), list(foreign_names))
        own_messages = messages.take(pa.array(own_indices)) if foreign_names else messages
        decoded_batch = results_in_batch(decode(own_messages), own_indices)
        tables = dict(decoded_batch.tables)
        is_plain = len(tables) <= 1 and decoded_batch.last_truncate is None
        names = [] if is_plain else self._names(own_messages)
        if decoded_batch.last_truncate is not None:  # perhaps the only message of its table
            own_index = int(np.searchsorted(own_indices, decoded_batch.last_truncate))
            tables.setdefault(names[own_index], decoded_batch.last_truncate)
        counts = Counter(names) if len(tables) > 1 else {}
        row_count = (
            own_messages.num_rows - decoded_batch.bad_records.num_rows - decoded_batch.skipped_count
        )
        reasons = {index: self.source_filter.refusal(name) for index, name in foreign_names.items()}
        shown_names = list(foreign_names.items())[:_SHOWN_TABLES_MAX]
        first_foreign = {name: index for index, name in reversed(shown_names)}
        return replace(
            decoded_batch,
            tables={**first_foreign, **tables},
            bad_records=join_bad_records(
                decoded_batch.bad_records, bad_records_with_reasons(messages, reasons)
            ),
            record_counts={name: counts.get(name, row_count) for name in tables},
            other_record_count=len(foreign_names),
        )

    def _foreign_names(self, messages: pa.RecordBatch) -> Mapping[int, str]:
        """Return messages that the table does not accept, and the names of their source tables."""
        if not self.source_filter.own_names and not self.source_filter.foreign_sources:
            return {}
        topics = messages.column("topic").to_pylist()
        has_value = valid_of(messages.column("value"))
        return {
            message_index: name
            for message_index, (topic, name) in enumerate(
                zip(topics, self._names(messages), strict=True)
            )
            if has_value[message_index] and not self.source_filter.accepts(topic, name)
        }

    def _names(self, messages: pa.RecordBatch) -> list[str]:
        """Return each message's source table; empty if it names none, or has no row."""
        origins = self.find_origins(messages)
        names = list(map(str, origins.tables))
        return ["" if code == NO_TABLE else names[code] for code in origins.codes.tolist()]
