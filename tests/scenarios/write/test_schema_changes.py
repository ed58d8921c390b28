"""Other writers and a job's own messages change the columns of its table while it runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest

from stream_app.cdc.column_drift import DriftKind
from stream_app.epochs.rounds.schema_evolution import SchemaEvolution
from stream_app.errors import UnsupportedTableError, WrongSourceError
from stream_app.model.source.source_table import SourceTable
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import open_file_store_table
from stream_app.table.schema.alter import EvolutionRules
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.jobs.evolving_job import Job, a_job, alter
from tests.support.jobs.table_writer import CompactInThreads, by_content, read_rows
from tests.support.jobs.two_table_job import EndedError, reports
from tests.support.tables.small_table import SmallTable
from tests.support.tables.sound_table import sound_report

pytestmark = pytest.mark.usefixtures("unsynced")

Row = Mapping[str, Any]
INT32 = {"type": "int32", "optional": True}
INT64 = {"type": "int64", "optional": True}
TEXT = {"type": "string", "optional": True}


def plain(row: Row) -> bytes:
    return json.dumps({"before": None, "after": dict(row), "op": "c"}).encode()


def enveloped(row: Row, **types: Mapping[str, Any]) -> bytes:
    fields = [{**kind, "field": name} for name, kind in types.items()]
    image = {"type": "struct", "fields": fields, "optional": True, "field": "after"}
    payload = {"before": None, "after": dict(row), "op": "c"}
    document = {"schema": {"type": "struct", "fields": [image]}, "payload": payload}
    return json.dumps(document, separators=(",", ":")).encode()


def test_an_alter_is_adopted_at_the_next_epoch(tmp_path: Path) -> None:
    """Types that do not hold every older value, which ended jobs, are adopted too."""
    job = a_job(tmp_path, rules=None)
    committer = job.started()
    job.run(committer, plain({"k": 1, "v": "7"}))
    alter(job, "--add-column", "n INT FIRST", "--change-type", "v INT")
    job.run(committer, plain({"k": 2, "v": 8, "n": 9}))
    alter(job, "--rename-column", "v=w", "--drop-column", "n")
    job.run(committer, plain({"k": 3, "w": 10, "n": 11}))
    assert job.rows() == by_content([{"k": 1, "w": 7}, {"k": 2, "w": 8}, {"k": 3, "w": 10}])
    assert [snapshot.schema_id for snapshot in _snapshots(job)] == [0, 1, 2]
    sound_report(open_file_store_table(job.table.location))


def test_a_comment_and_a_dropped_not_null_inside_of_a_column_end_no_job(tmp_path: Path) -> None:
    """Another engine makes such schemas, and compactions merge files of both."""
    columns = "k INT, r ARRAY<ROW<a INT NOT NULL>>"
    job = a_job(tmp_path, columns, rules=None, num_sorted_run__compaction_trigger=2)
    committer = job.started()
    job.run(committer, plain({"k": 1, "r": [{"a": 1}]}))
    schema = json.loads(Path(job.table.schemas.path(0)).read_text())
    del schema["stream_app.digest"]
    schema["fields"][1]["type"]["element"]["fields"][0] |= {"type": "INT", "description": "x"}
    Path(job.table.schemas.path(1)).write_text(json.dumps({**schema, "id": 1}))
    for number in (2, 3):
        job.run(committer, plain({"k": number, "r": [{"a": None}]}))
        committer.while_idle()
    committer.compact_due()
    rows = [{"k": 1, "r": [{"a": 1}]}, {"k": 2, "r": [{"a": None}]}, {"k": 3, "r": [{"a": None}]}]
    assert read_rows(open_file_store_table(job.table.location)) == rows
    assert {snapshot.schema_id for snapshot in _snapshots(job)} == {0, 1}
    assert any(snapshot.commit_kind.value == "COMPACT" for snapshot in _snapshots(job))
    sound_report(open_file_store_table(job.table.location))


def test_an_alter_inside_of_a_column_is_adopted_at_the_next_epoch(tmp_path: Path) -> None:
    columns = "k INT, r ARRAY<ROW<a INT, b STRING>>, m MAP<STRING, INT>"
    job = a_job(tmp_path, columns, rules=None, num_sorted_run__compaction_trigger=2)
    committer = job.started()
    job.run(committer, plain({"k": 1, "r": [{"a": 1, "b": "x"}, None], "m": {"p": 1}}))
    inside = "r.element"
    alter(job, "--rename-column", f"{inside}.a=c", "--change-type", f"{inside}.c BIGINT")
    alter(job, "--add-column", f"{inside}.d INT", "--change-type", "m.value BIGINT")
    alter(job, "--drop-column", f"{inside}.b")
    job.run(committer, plain({"k": 2, "r": [{"c": 2**40, "d": 3}], "m": {"q": 2**40}}))
    job.run(committer, plain({"k": 3, "r": None, "m": None}))
    committer.compact_due()
    rows = [
        {"k": 1, "r": [{"c": 1, "d": None}, None], "m": [("p", 1)]},
        {"k": 2, "r": [{"c": 2**40, "d": 3}], "m": [("q", 2**40)]},
        {"k": 3, "r": None, "m": None},
    ]
    assert read_rows(open_file_store_table(job.table.location)) == rows
    assert any(snapshot.commit_kind.value == "COMPACT" for snapshot in _snapshots(job))
    sound_report(open_file_store_table(job.table.location))


def test_an_alter_that_changes_the_kind_of_table_ends_the_job(tmp_path: Path) -> None:
    job = a_job(tmp_path, "k INT, v STRING, ts INT", rules=None)
    committer = job.started()
    job.run(committer, plain({"k": 1, "v": "7"}))
    alter(job, "--set", "sequence.field=ts")
    with pytest.raises(UnsupportedTableError, match="cannot continue with the table's schema 1"):
        job.run(committer, plain({"k": 2, "v": "8"}))
    assert job.rows() == by_content([{"k": 1, "v": "7", "ts": None}])
    job.repeat(job.started(), 1)
    assert len(job.rows()) == 2


def test_another_number_of_buckets_waits_for_the_next_start(tmp_path: Path) -> None:
    job = a_job(tmp_path, rules=None)
    committer = job.started()
    job.run(committer, plain({"k": 1, "v": "a"}))
    alter(job, "--set", "bucket=4", "--add-column", "n INT")
    job.run(committer, plain({"k": 2, "v": "b", "n": 1}))
    live = FileStoreScan(job.table).live(job.table.snapshots.latest())
    assert {entry.total_buckets for entry in live} == {1}
    assert job.rows() == by_content([{"k": 1, "v": "a", "n": None}, {"k": 2, "v": "b", "n": 1}])


def test_rows_of_another_writer_with_a_newer_schema_do_no_harm(tmp_path: Path) -> None:
    """Compactions of the older schema are settled, those of the newer one take all files."""
    job = a_job(tmp_path, rules=None, num_sorted_run__compaction_trigger=3)
    committer = job.started()
    for number in range(4):
        job.run(committer, plain({"k": number, "v": "old"}))
        alter(job, "--add-column", f"n{number} INT")
        other_writer = SmallTable(open_file_store_table(job.table.location))
        other_writer.epoch = number
        other_writer.commit(("+I", {"k": 10 + number, "v": "other", f"n{number}": number}))
        committer.while_idle()
    job.run(committer, plain({"k": 1, "v": "new", "n3": 3}))
    committer.compact_due()
    rows = {row["k"]: row for row in read_rows(open_file_store_table(job.table.location))}
    assert sorted(rows) == [0, 1, 2, 3, 10, 11, 12, 13]
    assert (rows[1]["v"], rows[1]["n3"], rows[12]["n2"]) == ("new", 3, 2)
    sound_report(open_file_store_table(job.table.location))


def test_a_compaction_under_way_is_published_before_a_newer_schema(tmp_path: Path) -> None:
    """The compaction takes files of the older schema, and ends after the ALTER and other rows."""
    job = a_job(tmp_path, rules=None, num_sorted_run__compaction_trigger=2)
    executors: list[CompactInThreads] = []

    def make_executor(table: FileStoreTable) -> CompactInThreads:
        executors.append(CompactInThreads(table))
        return executors[-1]

    job.make_executor = make_executor
    committer = job.started()
    for number in range(2):
        job.run(committer, plain({"k": number, "v": "old"}))
    assert len(executors[0].requests) == 1
    alter(job, "--add-column", "n INT")
    SmallTable(open_file_store_table(job.table.location)).commit(
        ("+I", {"k": 10, "v": "x", "n": 5})
    )
    job.run(committer, plain({"k": 2, "v": "new", "n": 1}))
    kinds = [(snapshot.commit_kind.value, snapshot.schema_id) for snapshot in _snapshots(job)]
    assert kinds[:4] == [("APPEND", 0), ("APPEND", 0), ("APPEND", 1), ("COMPACT", 1)]
    committer.compact_due()
    rows = {row["k"]: row["n"] for row in read_rows(open_file_store_table(job.table.location))}
    assert rows == {0: None, 1: None, 2: 1, 10: 5}
    assert [len(executor.requests) > 0 for executor in executors] == [True, True]
    sound_report(open_file_store_table(job.table.location))


def test_a_column_in_the_messages_is_added_in_the_middle_of_an_epoch(tmp_path: Path) -> None:
    job = a_job(tmp_path)
    committer = job.started()
    job.run(committer, plain({"k": 1, "v": "a"}))
    job.run(
        committer,
        plain({"k": 2, "v": "b"}),
        plain({"k": 3, "v": "c", "note": "new"}),
        plain({"k": 4, "v": "d", "note": 7, "other": {"x": 1}}),
    )
    assert job.columns() == ["k INT NOT NULL", "v STRING", "note STRING", "other STRING"]
    none = {"note": None, "other": None}
    assert job.rows() == by_content(
        [
            {"k": 1, "v": "a", **none},
            {"k": 2, "v": "b", **none},
            {"k": 3, "v": "c", "note": "new", "other": None},
            {"k": 4, "v": "d", "note": "7", "other": '{"x":1}'},
        ]
    )
    assert [snapshot.schema_id for snapshot in _snapshots(job)] == [0, 1]
    assert len(_data_files(tmp_path)) == 2, "what the outdated round has written is deleted"
    sound_report(open_file_store_table(job.table.location))
    # Rows before the new columns do not lack them; later ones do.
    job.run(committer, plain({"k": 5, "v": "e", "note": "x"}))
    assert [sorted(report.counts.drift) for report in reports(committer, 0)[1:]] == [
        [],
        [(DriftKind.MISSING, "other")],
    ]


def test_an_epoch_that_was_decoded_ahead_is_decoded_anew(tmp_path: Path) -> None:
    """Tasks decode each epoch ahead by a schema that the epoch before it then changes."""
    job = a_job(tmp_path)
    committer = job.started(overlaps=True)
    names = [f"n{number}" for number in range(5)]
    rows = []
    for number in range(5):
        rows.append({"k": number, "v": "a", **dict.fromkeys(names[: number + 1], "x")})
        job.run(committer, plain(rows[-1]), plain({"k": 10 + number, "v": "b"}))
        rows.append({"k": 10 + number, "v": "b"})
    committer.wait_until_committed()
    expected = [{"k": None, "v": None, **dict.fromkeys(names), **row} for row in rows]
    assert job.rows() == by_content(expected)
    assert [snapshot.schema_id for snapshot in _snapshots(job)] == [1, 2, 3, 4, 5]


def test_types_of_an_envelope_widen_the_table(tmp_path: Path) -> None:
    job = a_job(tmp_path, "k INT, qty INT NOT NULL, v VARCHAR(5)")
    committer = job.started()
    types = {"k": {**INT32, "optional": False}, "qty": {**INT32, "optional": False}, "v": TEXT}
    job.run(committer, enveloped({"k": 1, "qty": 1, "v": "a"}, **types))
    assert job.columns() == ["k INT NOT NULL", "qty INT NOT NULL", "v STRING"]
    types["qty"] = INT64
    job.run(
        committer,
        enveloped({"k": 2, "qty": 2**40, "v": "b"}, **types),
        enveloped({"k": 3, "qty": None, "v": "c", "added": 1}, **types, added=INT32),
    )
    assert job.columns() == ["k INT NOT NULL", "qty BIGINT", "v STRING", "added INT"]
    assert job.rows() == by_content(
        [
            {"k": 1, "qty": 1, "v": "a", "added": None},
            {"k": 2, "qty": 2**40, "v": "b", "added": None},
            {"k": 3, "qty": None, "v": "c", "added": 1},
        ]
    )


def test_columns_that_are_narrowed_or_dropped_stay(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job = a_job(tmp_path, "k INT, qty BIGINT, v STRING NOT NULL")
    committer = job.started()
    key = {"k": {**INT32, "optional": False}}
    for number in range(3):
        job.run(committer, enveloped({"k": number, "qty": 5}, **key, qty=INT32))
    assert job.columns() == ["k INT NOT NULL", "qty BIGINT", "v STRING"]
    assert job.rows() == by_content([{"k": k, "qty": 5, "v": None} for k in range(3)])
    warnings = [
        record.message for record in caplog.records if "stays BIGINT" in record.getMessage()
    ]
    assert len(warnings) == 1, "the job warns of each once"


def test_a_narrowed_column_stops_the_job_if_wanted(tmp_path: Path) -> None:
    job = a_job(tmp_path, "k INT, qty BIGINT", rules=EvolutionRules(stops_job=True))
    with pytest.raises(WrongSourceError, match="column 'qty' stays BIGINT, and is INT"):
        job.run(job.started(), enveloped({"k": 1, "qty": 5}, k=INT32, qty=INT32))
    assert _data_files(tmp_path) == []


@pytest.mark.parametrize("dies", ["after the schema", "after the commit"])
def test_a_replayed_epoch_finds_its_schema(tmp_path: Path, dies: str) -> None:
    """The rows of a schema version are committed once, whenever the process dies."""
    job = a_job(tmp_path)
    job.run(job.started(), plain({"k": 1, "v": "a"}))
    epoch = job.send(plain({"k": 2, "v": "b", "note": "new"}), plain({"k": 1, "v": "c"}))
    if dies == "after the commit":
        with pytest.raises(EndedError):
            job.repeat(job.started(ends_at=epoch), epoch)
    else:
        committer = job.started()
        committer.tables.feeds[0].evolution = EndsBehind(EvolutionRules())
        with pytest.raises(EndedError):
            job.repeat(committer, epoch)
        assert job.columns() == ["k INT NOT NULL", "v STRING", "note STRING"]
        assert len(_snapshots(job)) == 1
    job.repeat(job.started(), epoch)
    assert job.rows() == by_content(
        [{"k": 1, "v": "c", "note": None}, {"k": 2, "v": "b", "note": "new"}]
    )
    assert open_file_store_table(job.table.location).schemas.ids() == [0, 1]
    assert len(_snapshots(job)) == 2


class EndsBehind(SchemaEvolution):
    """The job ends behind the commit of a schema."""

    def apply(self, table: FileStoreTable, description: SourceTable) -> NoReturn:
        super().apply(table, description)
        raise EndedError


def test_a_column_that_no_table_can_have_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job = a_job(tmp_path)
    committer = job.started()
    for number in range(2):
        job.run(committer, plain({"k": number, "v": "a", "_KEY_k": 1}))
    assert job.columns() == ["k INT NOT NULL", "v STRING"]
    assert sum("Paimon reserves the name" in record.getMessage() for record in caplog.records) == 1


def test_a_bad_record_adds_no_column(tmp_path: Path) -> None:
    job = a_job(tmp_path)
    job.run(job.started(), b'{"nonsense":1}', plain({"k": 1, "v": "a"}), b'{"more":{"x":2}}')
    assert job.columns() == ["k INT NOT NULL", "v STRING"]
    assert job.rows() == by_content([{"k": 1, "v": "a"}])


def test_a_renamed_column_goes_on_by_an_alias(tmp_path: Path) -> None:
    """One epoch has both names, and the type under the newer name widens the column."""
    job = a_job(tmp_path, "k INT, qty INT")
    job.format_options = {"column-aliases": "amount=qty"}
    job.run(
        job.started(),
        enveloped({"k": 1, "qty": 1}, k=INT32, qty=INT32),
        enveloped({"k": 2, "amount": 2**40}, k=INT32, amount=INT64),
        enveloped({"k": 3, "amount": 3, "more": "x"}, k=INT32, amount=INT64, more=TEXT),
    )
    assert job.columns() == ["k INT NOT NULL", "qty BIGINT", "more STRING"]
    assert job.rows() == by_content(
        [
            {"k": 1, "qty": 1, "more": None},
            {"k": 2, "qty": 2**40, "more": None},
            {"k": 3, "qty": 3, "more": "x"},
        ]
    )


def test_a_column_with_a_bad_value_is_widened_before_the_record_is_bad(tmp_path: Path) -> None:
    """A format without fingerprints of schemas tells types of the records that do not fit."""
    job = a_job(tmp_path, "k INT, qty INT")
    job.run(
        job.started(),
        enveloped({"k": 1, "qty": 2**40}, k=INT32, qty=INT64).replace(b'{"schema"', b'{ "schema"'),
    )
    assert job.columns() == ["k INT NOT NULL", "qty BIGINT"]
    assert job.rows() == by_content([{"k": 1, "qty": 2**40}])


def _snapshots(job: Job) -> Sequence[Any]:
    snapshots = job.table.snapshots
    latest_id = snapshots.latest_id() or 0
    return [snapshots.snapshot(number) for number in range(1, latest_id + 1)]


def _data_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*.parquet") if "bucket-" in path.parent.name]
