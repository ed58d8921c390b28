"""Wraps any format for a table with lower-case column names, however the source spells them.

The format reads the columns by the names that messages have. These come from the first message of a
batch, or from an earlier batch. If a later message spells a column differently, for example after
an ALTER, the batch is split there.

Source: Paimon `flink/sink/cdc/CaseSensitiveUtils.java`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.cdc.change_batch import (
    BAD_RECORD_ORDER,
    DecodedBatch,
    join_results,
    results_in_batch,
    schema_of_changes,
    with_all_columns,
)
from stream_app.cdc.column_drift import DriftKind
from stream_app.cdc.message_format import FormatSetup, MessageFormat
from stream_app.cdc.pipeline import Pipeline
from stream_app.cdc.source_tables import NO_TABLE, Origins
from stream_app.errors import WrongSourceError
from stream_app.model.schema.data_type import RowType
from stream_app.model.source.mapping_options import NO_MAPPING_OPTIONS, MappingOptions
from stream_app.model.source.origin import Origin
from stream_app.model.source.source_table import SourceTable, merged_source_table

BAD_DESCRIBED_MAX = 100
"""The most bad records of a batch in which another spelling of columns is searched."""
Describe = Callable[[pa.RecordBatch, MappingOptions], SourceTable | None]


def spellings(names: Iterable[str]) -> dict[str, str]:
    """Return a map from names in lower case to the source's spelling of them.

    Raises:
        WrongSourceError: two names differ only in case.
    """
    spelling_of: dict[str, str] = {}
    for name in names:
        other_name = spelling_of.setdefault(name.lower(), name)
        if other_name != name:
            raise WrongSourceError(
                f"the columns {other_name!r} and {name!r} of the source would both become "
                f"{name.lower()!r}",
                fix="rename one of them at the source, or set sync.case-sensitive = true",
            )
    return spelling_of


def lower_case_table(table: SourceTable) -> SourceTable:
    """Return the table with names in lower case.

    Raises:
        WrongSourceError: two names differ only in case.
    """
    spellings(column.name for column in table.columns)
    return replace(
        table,
        columns=tuple(replace(column, name=column.name.lower()) for column in table.columns),
        primary_keys=tuple(name.lower() for name in table.primary_keys),
    )


@dataclass(frozen=True, slots=True)
class LowerCaseDescriber:
    """A reader of a table from messages, with lower-case names; see `SourceExtractor.describe`.

    It describes each message separately, because messages may spell a column differently.
    """

    describe: Describe

    def __call__(self, messages: pa.RecordBatch, options: MappingOptions) -> SourceTable | None:
        """Return the table that the messages describe; None if none describes it."""
        descriptions = (
            self.describe(messages.slice(message_index, 1), options)
            for message_index in range(messages.num_rows)
        )
        tables = [lower_case_table(table) for table in descriptions if table is not None]
        return functools.reduce(merged_source_table, tables) if tables else None


@dataclass(slots=True, kw_only=True)
class LowerCaseFormat:
    """A format whose rows have column names in lower case. Implements `MessageFormat`.

    Attributes:
        make: makes the format of a setup.
        find_origins: finds the source table that each message names; shards may spell a column in
            different ways.
        setup: the setup with the table's own column names.
    """

    make: Callable[[FormatSetup], MessageFormat]
    describe: Describe
    find_origins: Callable[[pa.RecordBatch], Origins]
    setup: FormatSetup
    _spellings: dict[Origin | None, dict[str, str]] = field(init=False, default_factory=dict)
    _formats: dict[tuple[str, ...], MessageFormat] = field(init=False, default_factory=dict)

    def decode(self, messages: pa.RecordBatch) -> DecodedBatch:
        """Decode each message independently; see `MessageFormat.decode`.

        Raises:
            WrongSourceError: two columns of a message differ only in case.
        """
        origins = self.find_origins(messages)
        if len(origins.tables) <= 1:
            return self._decode_table(next(iter(origins.tables), None), messages)
        parts = []
        for code in np.unique(origins.codes).tolist():  # a loop over source tables
            indices = np.flatnonzero(origins.codes == code)
            origin = None if code == NO_TABLE else origins.tables[code]
            part = self._decode_table(origin, messages.take(pa.array(indices)))
            parts.append(results_in_batch(part, indices.astype(np.int32)))
        joined_batch = functools.reduce(join_results, parts)
        return replace(joined_batch, bad_records=joined_batch.bad_records.sort_by(BAD_RECORD_ORDER))

    def _decode_table(self, origin: Origin | None, messages: pa.RecordBatch) -> DecodedBatch:
        """Decode one source table's messages up to a new spelling, then continue from there."""
        spelling_of = self._spellings.setdefault(origin, {})
        joined_batch: DecodedBatch | None = None
        start = 0
        tried_names: set[str] = set()
        if messages.num_rows:
            self._learn(spelling_of, messages, 0, ())
        while True:
            unread_messages = messages.slice(start)
            decoded_batch = self._decode_by_spelling(spelling_of, unread_messages)
            message_index, names = self._find_new_spelling(
                spelling_of, unread_messages, decoded_batch
            )
            if message_index is not None:
                decoded_batch = self._decode_by_spelling(
                    spelling_of, unread_messages.slice(0, message_index)
                )
            decoded_batch = results_in_batch(
                decoded_batch, np.arange(start, messages.num_rows, dtype=np.int32)
            )
            joined_batch = (
                decoded_batch if joined_batch is None else join_results(joined_batch, decoded_batch)
            )
            if message_index is None:
                return joined_batch
            tried_names = tried_names if message_index == 0 else set()
            # A message that has a column in two spellings is decoded again by each of them.
            self._learn(spelling_of, unread_messages, message_index, [*names, *tried_names])
            tried_names.update(names)
            start += message_index

    def _find_new_spelling(
        self, spelling_of: Mapping[str, str], messages: pa.RecordBatch, decoded_batch: DecodedBatch
    ) -> tuple[int | None, list[str]]:
        """Return the index of the first message with new spellings, and these spellings.

        The index is None without a new spelling. The search includes bad records, because a
        record is bad if its key has another name than the known one.
        """
        first_indices: dict[str, int] = {
            name: sighting.first_index
            for (kind, name), sighting in decoded_batch.drift.items()
            if kind is DriftKind.UNKNOWN and name.lower() in self.setup.columns.names
        }
        bad_offsets = decoded_batch.bad_records.column("offset").slice(0, BAD_DESCRIBED_MAX)
        for message_index in pc.index_in(bad_offsets, messages.column("offset")).to_pylist():
            for name in self._column_names(messages, message_index):
                known_name = spelling_of.get(name.lower(), name)
                if known_name != name and name.lower() in self.setup.columns.names:
                    first_indices[name] = min(message_index, first_indices.get(name, message_index))
        first_index = min(first_indices.values(), default=None)
        return first_index, sorted(
            name for name, message_index in first_indices.items() if message_index == first_index
        )

    def _learn(
        self,
        spelling_of: dict[str, str],
        messages: pa.RecordBatch,
        message_index: int,
        names: Iterable[str],
    ) -> None:
        """Learn how a message spells its columns.

        Args:
            names: further names that the message has.

        Raises:
            WrongSourceError: two names differ only in case.
        """
        spelling_of.update(
            spellings(dict.fromkeys([*self._column_names(messages, message_index), *names]))
        )

    def _column_names(self, messages: pa.RecordBatch, message_index: int) -> list[str]:
        message = with_all_columns(messages.slice(message_index, 1))
        table = self.describe(message, self.setup.mapping_options or NO_MAPPING_OPTIONS)
        return [] if table is None else [column.name for column in table.columns]

    def _decode_by_spelling(
        self, spelling_of: Mapping[str, str], messages: pa.RecordBatch
    ) -> DecodedBatch:
        decoded_batch = self._format(spelling_of).decode(messages)
        schema = schema_of_changes(self.setup.arrow_schema)
        rows = pa.RecordBatch.from_arrays(decoded_batch.changes.rows.columns, schema=schema)
        drift = {
            (kind, name if kind is DriftKind.UNKNOWN else name.lower()): sighting
            for (kind, name), sighting in decoded_batch.drift.items()
        }
        return replace(decoded_batch.with_rows(rows), drift=drift)

    def _format(self, spelling_of: Mapping[str, str]) -> MessageFormat:
        """Return the format for one spelling of the columns, which it makes once."""
        names = tuple(spelling_of.get(name, name) for name in self.setup.columns.names)
        if names not in self._formats:
            columns = RowType(
                tuple(
                    replace(column, name=name)
                    for column, name in zip(self.setup.columns, names, strict=True)
                )
            )
            keys = tuple(spelling_of.get(name, name) for name in self.setup.primary_keys)
            sequence = self.setup.traits.sequence_fields
            traits = replace(
                self.setup.traits,
                sequence_fields=tuple(spelling_of.get(name, name) for name in sequence),
                restored_columns=frozenset(),  # the writer knows columns by the table's names alone
            )
            schema = pa.schema(
                [
                    field.with_name(name)
                    for field, name in zip(self.setup.arrow_schema, names, strict=True)
                ]
            )
            setup = replace(
                self.setup, columns=columns, arrow_schema=schema, primary_keys=keys, traits=traits
            )
            self._formats[names] = Pipeline(self.make(setup))
        return self._formats[names]
