"""The compactions of Paimon's Java and of stream_app write the same changelogs.

Two tables get the same epochs. Java writes and compacts the first alone. In the second, Java and
stream_app take turns by chance.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import stream_app
from stream_app.model.options.merge_options import CHANGELOG_ROW_DEDUPLICATE_IGNORE_FIELDS
from tests.support.interop.changelog_tables import (
    CASES,
    COLUMNS,
    EPOCHS,
    epoch_of,
    java_changes,
    write_java,
    write_ours,
)
from tests.support.interop.followed_rows import our_changes
from tests.support.jobs.table_writer import by_content, read_rows
from tests.support.judges.paimon_java import PaimonJava
from tests.support.tables.small_table import Change
from tests.support.tables.sound_table import sound_report

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]


@pytest.mark.parametrize("case", CASES)
def test_java_and_we_write_the_same_changelog(
    paimon_java: PaimonJava, tmp_path: Path, case: str
) -> None:
    chance = random.Random(f"{case} 7")
    paths = [tmp_path / "db.db" / name for name in ("java", "turns")]
    for path in paths:
        options = {"bucket": 1, "target-file-size": "2 kb", **CASES[case]}
        paimon_java.create(path, COLUMNS, primary_keys=["k"], options=options)
    alone, turns = paths
    table = stream_app.open_table(str(turns)).table
    for epoch in range(EPOCHS):
        changes = epoch_of(chance, epoch, case)
        write_java(paimon_java, alone, changes, epoch)
        if chance.random() < 0.3:
            write_java(paimon_java, turns, changes, epoch)
        else:
            write_ours(table, changes, epoch)
    assert java_changes(paimon_java, turns) == java_changes(paimon_java, alone)
    followed_changes = our_changes(stream_app.PaimonTable(table).changelog(snapshot=1))
    assert [changes for changes in followed_changes.values() if changes] == java_changes(
        paimon_java, alone
    )
    rows = by_content(paimon_java.read(alone))
    assert by_content(paimon_java.read(turns)) == by_content(read_rows(table)) == rows
    # A changelog that leaves out changes of some fields does not add up to the rows.
    leaves_out_changes = bool(table.options[CHANGELOG_ROW_DEDUPLICATE_IGNORE_FIELDS])
    assert bool(sound_report(table).replayed_changes) is not leaves_out_changes


@pytest.mark.parametrize(("before", "after"), [(float("nan"), float("nan")), (0.0, -0.0)])
def test_floats_of_an_update_are_compared_as_numbers(
    paimon_java: PaimonJava, tmp_path: Path, before: float, after: float
) -> None:
    paths = [tmp_path / "db.db" / name for name in ("java", "ours")]
    options = {
        "bucket": 1, "changelog-producer": "lookup", "changelog-producer.row-deduplicate": True,
    }  # fmt: skip
    columns = [("k", "INT NOT NULL"), ("f", "DOUBLE")]
    for path in paths:
        paimon_java.create(path, columns, primary_keys=["k"], options=options)
    alone, by_lookup = paths
    table = stream_app.open_table(str(by_lookup)).table
    for epoch, value in enumerate((before, after)):
        changes: list[Change] = [("+I", {"k": 1, "f": value})]
        write_java(paimon_java, alone, changes, epoch)
        write_ours(table, changes, epoch)
    assert java_changes(paimon_java, by_lookup) == java_changes(paimon_java, alone)
