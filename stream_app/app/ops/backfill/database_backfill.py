"""Compares a table with its database, and writes the rows that differ in one snapshot.

1. Read the table's latest snapshot.
2. Compare it with the database. `compared_sums` names the keys whose rows still differ after a
   wait.
3. Read the rows of these keys from the database, as messages, and decode them as a first load does.
   A row that is not the one of step 2 has just changed, so the job will write it.
4. Read the messages that the job has not read yet. The job will write the rows that they name.
5. Write the differences in the other keys on top of step 1's snapshot, or of later compactions.

The database has a change before its message exists, and the table gets the change after the
message. So no row of step 3 is older than the table's row. A replica could be behind, so the
backfill refuses one.
"""

from __future__ import annotations

import hashlib
import uuid
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from stream_app.app.config.job_tables.job_tables import JobTables
from stream_app.app.load.loaded_tables import LoadedDatabase, first_load_pipeline
from stream_app.app.load.row_queries import InCondition
from stream_app.app.ops.backfill.table_changes import (
    Scope,
    TableChanges,
    WrittenRows,
    all_keys,
    check_newest_row_decides,
)
from stream_app.app.ops.backfill.unread_messages import UnreadMessages
from stream_app.app.ops.source_comparison.compared_sums import compare_sums
from stream_app.app.ops.source_comparison.database_side import (
    DatabaseSide,
    SummedDatabase,
    SummedSource,
    database_side,
)
from stream_app.app.ops.source_comparison.table_side import TableSide, newest_side
from stream_app.checkpoint.load_plan import LoadPart
from stream_app.errors import UnsupportedTableError, UsageError
from stream_app.format.row_hash.key_groups import HashedRows, group_by_key, key_texts
from stream_app.format.row_hash.row_hashes import row_hashes
from stream_app.process.local_disk import scratch_folder
from stream_app.spark.jobs.database_row_reader import DatabaseRowReader
from stream_app.table.check.source_check import SourceCheck
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.single_append import SingleAppend
from stream_app.table.versions.waiting_row_count import waiting_line

_USER = "backfill-"
_KEYS_MAX = 5_000
"""The maximum number of keys in one statement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseBackfillOutcome:
    """The outcome of a backfill from a database.

    Attributes:
        source: the database, and its log's position before the comparison.
        differing_key_count: the number of keys whose rows differ.
        pending_key_count: the number of these keys that the job will write, or that have just
            changed.
        is_whole: whether all rows were compared; false if there were too many differences.
        problem: why a row of the database cannot be stored; empty if all rows can be.
    """

    source: str
    differing_key_count: int
    pending_key_count: int
    is_whole: bool
    problem: str
    written_rows: WrittenRows


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseBackfill:
    """A backfill of one table from its database.

    Attributes:
        job_tables: the tables of the job that writes the table.
        summed_source: the database's tables whose rows the table has.
        messages: the messages that the table's job has not read yet.
        wait_s: how long to wait until the table has changes that the database has already.
        scope: selects the rows whose keys may be written.
    """

    table: FileStoreTable
    job_tables: JobTables
    database: SummedDatabase
    summed_source: SummedSource
    messages: UnreadMessages
    wait_s: float
    scope: Scope = all_keys

    def run(self, *, dry_run: bool) -> DatabaseBackfillOutcome:
        """Write the rows that differ, so that they equal those of the database.

        Raises:
            UnsupportedTableError: the database's rows do not determine the table's rows.
            UsageError: the database is a replica, or lacks the table.
            SourceError: the database or the broker does not respond.
            CommitConflictError: another writer has added rows meanwhile.
        """
        table_config = self.job_tables.table_config(self.table.name, self.table.schema.fields)
        check_newest_row_decides(self.table, table_config)
        self._check_primary()
        append = SingleAppend.begin(self.table, f"{_USER}{uuid.uuid4().hex}")  # step 1
        source_side = database_side(self.database, self.summed_source, self.table.schema)
        table_side, label = newest_side(self.table, source_side.columns), source_side.label
        # step 2
        comparison = compare_sums(
            table_side, source_side, wait_s=self.wait_s, clock=self.table.clock
        )
        with scratch_folder("backfill") as folder:
            source_check = SourceCheck(self.table, folder, append.basis)
            self._check_buckets(source_check)
            differing_rows = _DifferingRows(self, table_side, source_side, comparison.source_rows)
            keys = differing_rows.add_to(source_check)  # step 3
            if keys:
                keys -= self.messages.key_texts(table_side.keys)  # step 4
            changes = TableChanges(
                table=self.table,
                source_check=source_check,
                snapshot=append.known_snapshot,
                is_whole=True,
                scope=_scope_of_keys(keys, table_side, self.scope),
            )
            snapshot = None
            if dry_run or not keys:
                for _ in changes.bucket_changes() if keys else ():
                    pass
            elif files := append.write_buckets(changes.bucket_changes()):  # step 5
                snapshot = append.commit(files, {})
        return DatabaseBackfillOutcome(
            source=label,
            differing_key_count=len(comparison.source_rows) + comparison.moving_key_count,
            pending_key_count=len(comparison.source_rows) - len(keys) + comparison.moving_key_count,
            is_whole=comparison.is_whole,
            problem=differing_rows.problem,
            written_rows=changes.written_rows(snapshot, waiting_line(self.table, snapshot)),
        )

    def _check_primary(self) -> None:
        if self.database.is_replica:
            raise UsageError(
                "the database is a replica or read-only: its rows may be older than the table's",
                where=str(self.database.url),
                fix="name the primary database",
            )

    def _check_buckets(self, source_check: SourceCheck) -> None:
        if source_check.compared_table is not self.table:
            raise UnsupportedTableError(
                "the rows of a key may be in any partition, or wait for a bucket",
                where=self.table.location,
                fix="read the topics again instead, without --source",
            )


@dataclass(slots=True)
class _DifferingRows:
    """The database's rows of keys that differ.

    Attributes:
        table_side, source_side: the table's and the database's side of the comparison.
        compared_rows: key → the rows that the comparison has read from the database.
        problem: why a row cannot be stored; empty if all rows can be.
    """

    backfill: DatabaseBackfill
    table_side: TableSide
    source_side: DatabaseSide
    compared_rows: Mapping[bytes, HashedRows]
    problem: str = ""

    def add_to(self, source_check: SourceCheck) -> set[bytes]:
        """Add the rows to `source_check`.

        Return the keys whose rows have not changed since the comparison.
        """
        if not self.compared_rows:
            return set()
        hashed_rows: HashedRows = Counter()
        pipeline = first_load_pipeline(self.backfill.job_tables, self.backfill.table)
        for messages in self._messages():
            decoded_batch = pipeline.decode(messages)
            if decoded_batch.bad_records.num_rows:
                self.problem = self.problem or decoded_batch.bad_records.column("reason")[0].as_py()
            rows = decoded_batch.changes.rows
            texts = key_texts(rows, self.table_side.keys).to_pylist()
            high_hashes, low_hashes = (
                lane.tolist() for lane in row_hashes(rows, self.table_side.columns)
            )
            hashed_rows.update(zip(texts, high_hashes, low_hashes, strict=True))
            source_check.source_rows.add(source_check.assigner.assign(rows))
        read_rows = group_by_key(hashed_rows)
        return {
            key
            for key, rows in self.compared_rows.items()
            # If several source tables have rows of a key, none of them is the right one.
            if read_rows.get(key, Counter()) == rows and rows.total() <= 1
        }

    def _messages(self) -> Iterator[pa.RecordBatch]:
        """Yield the database's rows of the compared keys as messages, like a first load."""
        table, database = self.backfill.table, self.backfill.database
        loaded_database = LoadedDatabase(
            database.connection, database.url, self.backfill.job_tables
        )
        digests = [
            hashlib.md5(key, usedforsecurity=False).hexdigest() for key in self.compared_rows
        ]
        for definition, key_digest in zip(
            self.source_side.definitions, self.source_side.key_digests, strict=True
        ):
            loaded_relation = loaded_database.relation(table.name, table.schema, definition)
            relation = str(loaded_relation)
            now_ms = table.clock.now_ms()
            part = LoadPart(name=table.name, table=table.location, relation=relation)
            for start in range(0, len(digests), _KEYS_MAX):
                query = loaded_relation.row_query(
                    now_ms, InCondition(key_digest, digests[start : start + _KEYS_MAX])
                )
                rows = DatabaseRowReader(url=database.url, queries={relation: query})
                yield from rows.read([(0, part)])


def _scope_of_keys(keys: Collection[bytes], table_side: TableSide, scope: Scope) -> Scope:
    wanted_keys = pa.array(list(keys), pa.large_binary())

    def rows_of_keys(rows: pa.RecordBatch) -> pa.RecordBatch:
        in_scope = scope(rows)
        return in_scope.filter(
            pc.is_in(key_texts(in_scope, table_side.keys), value_set=wanted_keys)
        )

    return rows_of_keys
