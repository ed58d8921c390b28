"""Paimon's readers read our tables, and Paimon and stream_app write tables in turns."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from stream_app.errors import CheckpointError
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.stream_table_commit import StreamTableCommit
from stream_app.table.opening import open_file_store_table, require_writable
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.files.faulty_file_io import Fault, FaultyFileIO, InjectedError
from tests.support.histories.random_changes import RandomChanges
from tests.support.interop.every_type import (
    INPUT,
    LOW,
    TABLES,
    a_table,
    assert_metadata_agrees,
    attempt,
    theirs,
)
from tests.support.jobs.table_writer import (
    CompactInThreads,
    TableWriter,
    assert_same_changes,
    assert_table_is,
    by_content,
    read_rows,
)
from tests.support.judges.normal_rows import Row, normal_rows
from tests.support.judges.paimon_java import PaimonError, PaimonJava
from tests.support.judges.pypaimon_reader import PyPaimonReader
from tests.support.tables.snapshot_chain import check_chain

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]


def assert_java_reads(paimon_java: PaimonJava, table: FileStoreTable, rows: Sequence[Row]) -> None:
    assert by_content(paimon_java.read(table.location)) == by_content(rows)


@pytest.mark.parametrize("name", TABLES)
def test_paimon_reads_our_table_as_we_do(
    paimon_java: PaimonJava, pypaimon: PyPaimonReader, tmp_path: Path, seed: int, name: str
) -> None:
    columns, keys, partitions, options = TABLES[name]
    writer = TableWriter(a_table(tmp_path, columns, keys, partitions, **options))
    table, model = writer.table, writer.model
    changes = RandomChanges(table.schema, random.Random(seed))
    for _ in range(4):
        writer.write(changes.epoch(150 if name == "small files" else 40))
    assert_java_reads(paimon_java, table, model.rows())
    writer.commit.compact_due()
    writer.write(changes.epoch(10))
    assert_table_is(writer)

    assert_java_reads(paimon_java, table, model.rows())
    rows = normal_rows(pypaimon.read(table.location))
    assert by_content(rows) == by_content(model.rows())
    assert_metadata_agrees(paimon_java, table)
    if table.options.writes_changelog:
        plans = {plan.snapshot: plan.changes for plan in paimon_java.changelog(table.location)}
        for snapshot in check_chain(table):
            if snapshot.changelog_manifest_list is not None:
                planned_files = plans.pop(snapshot.snapshot_id)
                assert_same_changes(planned_files, model.changes[snapshot.commit_identifier], model)
        assert plans == {}


@pytest.mark.parametrize("producer", ["none", "input"])
def test_paimon_and_we_write_in_turns(
    paimon_java: PaimonJava, tmp_path: Path, seed: int, producer: str
) -> None:
    location = tmp_path / "db.db" / "t"
    paimon_java.create(
        location,
        [("dt", "STRING NOT NULL"), ("k", "INT NOT NULL"), ("a", "STRING"), ("b", "DECIMAL(20,3)"),
         ("c", "TIMESTAMP(3)"), ("d", "DOUBLE")],
        primary_keys=["dt", "k"], partition_keys=["dt"],
        options={"bucket": 2, "changelog-producer": producer, **LOW},
    )  # fmt: skip
    table = require_writable(open_file_store_table(str(location)))
    changes = RandomChanges(table.schema, random.Random(seed), key_count=40)
    # What was written by whom does not matter to the model: the order does.
    writer = TableWriter(table, user="ours")
    model = writer.model
    ours = 0
    largest = -1
    for turn in range(12):
        model.changes.append(changes.epoch(25))
        if turn % 3 == 0:
            compacts = {} if turn % 2 else {"write-only": True}
            theirs(paimon_java, writer, model.changes[-1], turn, **compacts)
        else:
            if turn % 4 == 1:
                writer.restart()
            attempt(writer, ours, model.changes[-1])
            ours += 1
        if turn == 7:
            writer.commit.compact_due()
        if turn == 9:
            paimon_java.compact(location)
        assert by_content(read_rows(table)) == by_content(model.rows())
        assert_java_reads(paimon_java, table, model.rows())
        live = FileStoreScan(table).live(table.snapshots.latest())
        latest = max(entry.file.max_sequence_number for entry in live)
        assert latest >= largest
        largest = latest
    writer.commit.compact_due()
    assert_java_reads(paimon_java, table, model.rows())
    paimon_java.compact(location)
    assert_java_reads(paimon_java, table, model.rows())
    assert by_content(read_rows(table)) == by_content(model.rows())
    users = {snapshot["commitUser"] for snapshot in paimon_java.snapshots(location)}
    assert {"ours", "paimon-java"} <= users
    assert_metadata_agrees(paimon_java, table)


@pytest.mark.parametrize(
    ("java_compacts", "another_compacts"), [(False, False), (True, False), (True, True)]
)
def test_both_commit_to_one_table_at_the_same_time(
    paimon_java: PaimonJava, tmp_path: Path, java_compacts: bool, another_compacts: bool
) -> None:
    """Each writer has its own keys, so the order of commits is irrelevant; the buckets are shared.

    A third process, also ours, only compacts.
    """
    # Else Paimon expires what seems old by our clock.
    options = {"bucket": "3", "snapshot.num-retained.min": "1000"}
    table = a_table(tmp_path, "k INT, a STRING", ["k"], **LOW, **options)
    stop = threading.Event()
    java_epochs: list[int] = []
    errors: list[BaseException] = []
    shared_state = stop, java_epochs, errors
    others = [
        threading.Thread(
            target=_java_writes, args=(paimon_java, table, java_compacts, *shared_state)
        ),
        threading.Thread(target=_compacts, args=(table, stop, errors)),
    ]
    if not another_compacts:
        others.pop()
    for other in others:
        other.start()
    writer = TableWriter(table, CompactInThreads, user="ours")
    try:
        for epoch in range(25):
            writer.model.changes.append([("+I", {"k": k, "a": f"ours {epoch}"}) for k in range(20)])
            again_if_replaced(writer, lambda: writer.attempt(writer.epoch - 1))
            if epoch % 3 == 0:
                again_if_replaced(writer, writer.commit.commit_idle)
    finally:
        stop.set()
        for other in others:
            other.join()
    assert errors == []
    again_if_replaced(writer, lambda: writer.commit.state.follow_and_load(()))
    writer.commit.compact_due()
    rows = {row["k"]: row["a"] for row in paimon_java.read(table.location)}
    assert {k: rows[k] for k in range(20)} == dict.fromkeys(range(20), "ours 24")
    assert {rows[-1 - k] for k in range(20)} == {f"java {java_epochs[-1]}"}
    assert len(rows) == 40
    assert by_content(read_rows(table)) == by_content(paimon_java.read(table.location))
    commits = [
        (snapshot["commitIdentifier"], snapshot["commitKind"])
        for snapshot in paimon_java.snapshots(table.location)
        if snapshot["commitUser"] == "ours"
    ]
    appends = [number for number, kind in commits if kind == "APPEND"]
    # Java may rename over a snapshot that is no longer the latest: then Java's rows are lost, and
    # ours are in the snapshots that followed.
    assert appends == sorted(set(appends) & set(range(25)))
    assert len(appends) >= 23
    by_whom = {
        snapshot["commitUser"]
        for snapshot in paimon_java.snapshots(table.location)
        if snapshot["commitKind"] == "COMPACT"
    }
    assert ("compactor" if another_compacts else "ours") in by_whom
    scan = FileStoreScan(table)
    for number in table.snapshots.ids():
        snapshot = table.snapshots.snapshot(number)
        live = scan.live(snapshot)
        assert snapshot.total_record_count == sum(entry.file.row_count for entry in live)


def _java_writes(
    paimon_java: PaimonJava,
    table: FileStoreTable,
    compacts: bool,
    stop: threading.Event,
    java_epochs: list[int],
    errors: list[BaseException],
) -> None:
    while not stop.is_set() or len(java_epochs) < 5:
        rows = [("+I", {"k": -1 - k, "a": f"java {len(java_epochs)}"}) for k in range(20)]
        options = {"write-only": not compacts}
        try:
            paimon_java.write(table.location, rows, identifier=len(java_epochs), options=options)
        except PaimonError as error:
            # Its rows are in the table before it finds that its compaction has lost.
            if not compacts or "deletion conflicts" not in str(error):
                errors.append(error)
                return
        java_epochs.append(len(java_epochs))


def _compacts(table: FileStoreTable, stop: threading.Event, errors: list[BaseException]) -> None:
    while not stop.is_set():
        try:
            compactor = StreamTableCommit(
                table, "compactor", CompactInThreads(table), BATCH_COMMIT_IDENTIFIER
            )
            while not stop.is_set():
                compactor.compact_fully()
        except CheckpointError as error:  # see again_if_replaced
            if "replaced" not in str(error):
                errors.append(error)
                return


def again_if_replaced(writer: TableWriter, work: Callable[[], Any]) -> None:
    """Do it; again after a restart when Paimon has renamed over a snapshot of ours.

    On a local file system it can, in the moment between its look and its rename; we find out and
    stop. What was in the snapshot is not in the table then, and is done again.
    """
    while True:
        try:
            work()
        except CheckpointError as error:
            if "replaced" not in str(error):
                raise
            work = writer.replay
        else:
            return


def test_paimon_sees_only_whole_epochs_after_a_crash(
    paimon_java: PaimonJava, tmp_path: Path
) -> None:
    """The cases between a manifest and its snapshot; all others are in the unit tests."""
    for operation in range(3, 43, 3):
        table = a_table(tmp_path / str(operation), "k INT, a STRING", ["k"], **INPUT, **LOW)
        writer = TableWriter(table)
        changes = RandomChanges(table.schema, random.Random(operation))
        for _ in range(2):
            writer.write(changes.epoch(6))
        before = by_content(writer.model.rows())
        writer.restart(FaultyFileIO(fault=Fault(number=operation, mode="half", stays_dead=True)))
        possible_rows = [before]
        fails = 0
        while not fails:
            writer.model.changes.append(changes.epoch(6))
            possible_rows.append(by_content(writer.model.rows()))
            try:
                writer.attempt(writer.epoch - 1)
            except InjectedError:
                fails = 1
        assert by_content(paimon_java.read(table.location)) in possible_rows[-2:]
        writer.replay()
        assert_java_reads(paimon_java, table, writer.model.rows())
        assert_table_is(writer)
