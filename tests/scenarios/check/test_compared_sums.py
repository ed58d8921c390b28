"""``check --source`` finds that two tables are equal, or names the keys of rows that differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from stream_app.app.cli.main import main
from stream_app.app.inspect.table_facts import table_facts
from stream_app.app.observe.metrics.job_metrics import JobMetrics
from stream_app.app.observe.metrics.proof_watch import ProofWatch
from stream_app.app.ops.source_comparison.compared_sums import compare_sums
from stream_app.format.row_hash.key_groups import HashedRows
from stream_app.model.checksum.row_sum import NO_ROWS, RowSum
from tests.support.tables.small_table import Change, SmallTable, StandingClock, small_table

pytestmark = pytest.mark.usefixtures("unsynced")


def a_table(folder: Path, columns: str = "k INT NOT NULL, v STRING", **options: Any) -> SmallTable:
    return small_table(folder / "db.db" / "t", columns, ("k",), **options)


def rows(count: int, **other: str) -> list[Change]:
    return [("+I", {"k": k, "v": other.get(f"k{k}", "a")}) for k in range(count)]


def check(capsys: pytest.CaptureFixture[str], table: SmallTable, source: str) -> tuple[int, str]:
    capsys.readouterr()
    code = main(["check", table.path, "--source", source])
    output = capsys.readouterr()
    return code, output.out + output.err


def test_tables_of_other_layouts_are_equal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, other_table = a_table(tmp_path / "a"), a_table(tmp_path / "b", bucket=3)
    table.commit(*rows(50))
    for change in reversed(rows(50)):
        other_table.commit(change)
    code, text = check(capsys, table, other_table.path)
    assert code == 0
    assert f"equal to {other_table.path}, snapshot" in text
    assert "50 rows with checksum" in text


def test_carried_checksums_answer_without_a_file_of_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {"stream-app.row-checksum": "true", "changelog-producer": "input"}
    tables = [a_table(tmp_path / name, **options) for name in "ab"]
    for table in tables:
        table.commit(*rows(9))
        for file in Path(table.path).rglob("data-*.parquet"):
            file.unlink()
    assert check(capsys, tables[0], tables[1].path)[0] == 0


def test_the_keys_of_rows_that_differ_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, other_table = a_table(tmp_path / "a"), a_table(tmp_path / "b")
    table.commit(*rows(40, k7="other"))
    other_table.commit(*rows(42), ("-D", {"k": 3, "v": "a"}))
    code, text = check(capsys, table, other_table.path)
    assert code == 1
    lines = [line for line in text.splitlines() if line.startswith("source:")]
    assert [line.partition(" rows ")[0] for line in lines] == [
        "source: 2", "source: 1", "source: 1",
    ]  # fmt: skip
    assert [line.rpartition(": ")[2] for line in lines] == ["k = 40; k = 41", "k = 7", "k = 3"]


def test_a_tag_shows_what_has_changed_since(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = a_table(tmp_path)
    table.commit(*rows(5))
    assert main(["create-tag", table.path, "before"]) == 0
    assert check(capsys, table, "tag:before")[0] == 0
    table.commit(("+I", {"k": 99, "v": "z"}))
    code, text = check(capsys, table, "tag:before")
    assert (code, "k = 99" in text) == (1, True)


def test_columns_that_cannot_be_compared_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = a_table(tmp_path / "a", "k INT NOT NULL, v STRING, w INT, n INT")
    other_table = a_table(tmp_path / "b", "k BIGINT NOT NULL, v STRING, w STRING, x INT")
    for compared_table in (table, other_table):
        compared_table.commit(("+I", {"k": 1, "v": "a"}))
    without = "w (INT and STRING), n (not there), x (only there)"
    assert main(["check", table.path, "--source", other_table.path, "--record"]) == 3
    assert f"columns were left out: {without}" in capsys.readouterr().out
    facts = table_facts(table.table, is_of_job=False)
    assert (facts.proven_at, facts.proven_without) == ("snapshot 1", without)
    assert main(["inspect", table.path]) == 0
    assert f"; without {without}\n" in capsys.readouterr().out


def test_a_snapshot_has_the_checksum_of_rows_with_arrays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = "k INT NOT NULL, v STRING, a ARRAY<STRING>"
    options = {"stream-app.row-checksum": "true", "changelog-producer": "input"}
    table, other_table = (a_table(tmp_path / name, columns, **options) for name in "ab")
    for compared_table in (table, other_table):
        compared_table.commit(
            ("+I", {"k": 1, "v": "a", "a": ["x", None]}), ("+I", {"k": 2, "v": "a"})
        )
    assert check(capsys, table, other_table.path)[0] == 0
    assert main(["check", table.path]) == 0, "the recorded checksum is that of the rows"
    table.commit(("+U", {"k": 2, "v": "a", "a": []}))
    code, text = check(capsys, table, other_table.path)
    assert (code, "1 rows have other values" in text, "k = 2\n" in text) == (1, True, True)


def test_rows_without_a_key_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = "k INT, v STRING"
    table, other_table = (small_table(tmp_path / name / "db.db" / "t", columns) for name in "ab")
    table.commit(*rows(3), *rows(3))
    other_table.commit(*rows(3))
    code, text = check(capsys, table, other_table.path)
    assert (code, "3 rows have other values" in text) == (1, True)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--source", "tag:none"], "none"),
        (["--source", "jdbc:oracle://a/b"], "not a URL of a database"),
        (["--source", "tag:x", "--quick"], "checksums alone"),
        (["--source", "tag:x", "--wait", "5"], "no unit"),
    ],
)
def test_wrong_words_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], problem: str
) -> None:
    table = a_table(tmp_path)
    table.commit(*rows(1))
    assert main(["check", table.path, *words]) == 2
    assert problem in capsys.readouterr().err


def test_a_recorded_comparison_stays_visible_in_later_snapshots(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, other_table = a_table(tmp_path / "a"), a_table(tmp_path / "b")
    for compared_table in (table, other_table):
        compared_table.commit(*rows(4))
    words = ["check", table.path, "--source", other_table.path, "--record"]
    assert main(words) == 0
    table.commit(("+I", {"k": 4, "v": "a"}))
    assert main(words) == 1, "a row more: the older proof stays"
    capsys.readouterr()
    assert main(["inspect", table.path]) == 0
    proven = next(line for line in capsys.readouterr().out.splitlines() if "proven" in line)
    assert f"equal to {other_table.path}, snapshot 1, " in proven
    assert "s ago: 4 rows with checksum" in proven
    facts = table_facts(table.table, is_of_job=False)
    assert (facts.proof_time_ms is not None, facts.proven_at) == (True, "snapshot 1")
    metrics = JobMetrics("db.t")
    watch = ProofWatch(StandingClock())
    watch.add(metrics, table.table)
    assert watch.check_tables() >= 60
    sample = metrics.registry.get_sample_value(
        "stream_app_proven_timestamp_seconds", {"table": "db.t"}
    )
    assert sample is not None, "the job has committed nothing since the proof"
    assert round(1000 * sample) == facts.proof_time_ms


@dataclass
class Side:
    """A side that shows another of its states at each look at its rows; the last one stays."""

    states: list[dict[bytes, int]]
    label: str = "a side"
    looks: Iterator[int] = field(default_factory=lambda: iter(range(10**6)))

    def total(self) -> RowSum | None:
        return None

    def groups(self) -> Mapping[int, RowSum]:
        return {key[0]: RowSum(1, value, 0) for key, value in self.states[0].items()}

    def rows(self, groups: Collection[int]) -> HashedRows:
        state = self.states[min(next(self.looks), len(self.states) - 1)]
        return Counter({(key, value, 0): 1 for key, value in state.items() if key[0] in groups})


def test_changes_under_way_are_waited_for_and_new_ones_not_judged() -> None:
    source = Side([{b"a": 1, b"b": 1, b"c": 1}, {b"a": 1, b"b": 2, b"c": 1}])
    table = Side([{}, {b"a": 1}, {b"a": 1}])
    outcome = compare_sums(table, source, wait_s=9, clock=StandingClock())
    assert (outcome.missing_keys, outcome.moving_key_count) == ((b"c",), 1)
    assert not outcome.is_equal
    arrived_side = Side([{}, {b"a": 1, b"c": 1}])
    moved_outcome = compare_sums(arrived_side, Side(source.states), wait_s=9, clock=StandingClock())
    assert (moved_outcome.missing_keys, moved_outcome.moving_key_count, moved_outcome.is_equal) == (
        (),
        1,
        False,
    )
    at_once = compare_sums(table, source, wait_s=0, clock=StandingClock())
    assert outcome.total != NO_ROWS
    assert at_once.total == outcome.total
