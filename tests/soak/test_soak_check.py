"""The judge of a soak: each error that it claims to find is planted and found."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest

from bench.shop.shop_orders import COLUMNS, Shop
from stream_app.model.snapshot import SOURCE_END_PROPERTY
from stream_app.table.job.stream_table_commit import StreamTableCommit
from stream_app.table.opening import open_file_store_table
from tests.soak.soak_check import SoakCheck
from tests.support.histories.topic_model import TopicModel
from tests.support.judges.paimon_java import PaimonJava
from tests.support.tables.damaged_table import Damage
from tests.support.tables.small_table import CompactHere, small_table, write_changes

pytestmark = pytest.mark.usefixtures("unsynced")
EPOCHS, MESSAGES = 5, 30
"""Epochs, and messages of each."""


class Messages(list[bytes]):
    """A topic of one partition."""

    def values(self, start: Mapping[int, int], end: Mapping[int, int]) -> Iterator[bytes | None]:
        yield from islice(self, start.get(0, 0), end[0])


def sold() -> Messages:
    return Messages(value for _, value in Shop(Random(3)).changes(EPOCHS * MESSAGES))


def write_table(path: Path, messages: Sequence[bytes]) -> SoakCheck:
    """A table as the job makes it of these messages."""
    table = small_table(
        path,
        COLUMNS,
        ("dt", "id"),
        ("dt",),
        bucket=2,
        changelog_producer="input",
        num_sorted_run__compaction_trigger=3,
    ).table
    commit = StreamTableCommit(table, "soak", CompactHere(table))
    for epoch in range(EPOCHS):
        end = (epoch + 1) * MESSAGES
        model = TopicModel()
        model.apply(messages[end - MESSAGES : end])
        changes = [change for of_key in model.changes.values() for change in of_key]
        written = write_changes(table, changes, commit.follow_and_wait())
        text = json.dumps({"orders": {"0": end}})
        commit.commit_epoch(epoch, written, properties={SOURCE_END_PROPERTY: text})
    commit.compact_due()
    return SoakCheck(path, Messages(messages))


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("soak") / "shop.db" / "orders"
    write_table(path, sold())
    return path


@pytest.fixture
def check(tmp_path: Path, right: Path) -> SoakCheck:
    """Return the check of a copy, which a test damages."""
    path = tmp_path / "shop.db" / "orders"
    return SoakCheck(Path(shutil.copytree(right, path)), sold())


def wrong(check: SoakCheck) -> str:
    check.check([])
    return "\n".join(check.wrong)


def data_files(check: SoakCheck) -> list[Path]:
    return sorted(check.location.rglob("data-*"), key=lambda file: file.stat().st_mtime_ns)


def damage(check: SoakCheck) -> Damage:
    return Damage(open_file_store_table(str(check.location)))


def test_a_right_table_passes_again_and_again(check: SoakCheck) -> None:
    assert wrong(check) == ""
    assert wrong(check) == ""
    assert check.last_epoch == EPOCHS - 1
    assert check.applied_ends == {0: EPOCHS * MESSAGES}
    assert check.rows > MESSAGES
    assert check.changes_replayed > MESSAGES
    assert check.orphans == {}


def test_an_empty_folder_is_not_a_table_yet(tmp_path: Path) -> None:
    check = SoakCheck(tmp_path / "none", sold())
    assert wrong(check) == ""
    assert check.checks == 0


def last_insert(messages: Sequence[bytes]) -> int:
    """Place of the last order that nothing later tells of."""
    changed_keys: set[int] = set()
    for place in range(len(messages) - 1, -1, -1):
        document = json.loads(messages[place])
        number = (document["after"] or document["before"])["id"]
        if document["op"] == "c" and number not in changed_keys:
            return place
        changed_keys.add(number)
    raise AssertionError("each order was changed")


def test_a_lost_row_and_its_lost_change_are_found(tmp_path: Path) -> None:
    messages = sold()
    last = last_insert(messages)
    lost: list[Any] = list(messages)
    lost[last] = None
    check = replace(write_table(tmp_path / "orders", lost), topic=messages)
    complaint = wrong(check)
    assert "the table lacks 1 rows" in complaint
    assert "the changelog from snapshot 1 on has" in complaint


def test_a_row_too_many_is_found(tmp_path: Path) -> None:
    messages = sold()
    last = last_insert(messages)
    values_by_key: list[Any] = list(messages)
    values_by_key[last] = None
    check = replace(write_table(tmp_path / "orders", messages), topic=Messages(values_by_key))
    assert "has 1 too many" in wrong(check)


def test_a_changed_value_is_found(tmp_path: Path) -> None:
    messages = sold()
    last = last_insert(messages)
    other = list(messages)
    document = json.loads(other[last])
    document["after"]["customer"] = "Nobody"
    other[last] = json.dumps(document).encode()
    check = replace(write_table(tmp_path / "orders", other), topic=messages)
    assert "and 1 others" in wrong(check)


def test_an_epoch_twice_and_one_that_is_missing_are_found(check: SoakCheck) -> None:
    damage(check).snapshot(3, commit_identifier=1)
    assert "an epoch is there twice or not at all: [0, 1, 1, 3, 4]" in wrong(check)


def test_an_epoch_that_is_gone_again_is_found(check: SoakCheck) -> None:
    check.last_epoch = EPOCHS
    assert f"epoch {EPOCHS} was in the table, now {EPOCHS - 1} is its newest" in wrong(check)


def test_a_change_that_the_changelog_lacks_is_found(check: SoakCheck) -> None:
    damaged_snapshot = damage(check)
    number = max(
        n
        for n in damaged_snapshot.table.snapshots.ids()
        if damaged_snapshot.table.snapshots.snapshot(n).changelog_manifest_list
    )
    damaged_snapshot.snapshot(
        number, changelog_manifest_list=None, changelog_manifest_list_size=None
    )
    complaint = wrong(check)
    assert "the changelog from snapshot 1 on has" in complaint
    assert "the replayed changelog lacks" in complaint


def test_a_snapshot_that_is_missing_between_others_is_found(check: SoakCheck) -> None:
    (check.location / "snapshot" / "snapshot-2").unlink()
    assert "snapshots are missing between others: [1, 3, 4, 5" in wrong(check)


def test_another_commit_user_is_found(check: SoakCheck) -> None:
    damage(check).snapshot(2, commit_user="another")
    assert "a run of the job has not known its commit user" in wrong(check)


def test_a_file_that_is_missing_is_found(check: SoakCheck) -> None:
    file = data_files(check)[-1]
    file.unlink()
    complaint = wrong(check)
    assert f"1 files are named and missing: ['{file.name}']" in complaint
    assert "the table cannot be read: a data file that a snapshot names is missing" in complaint


def test_an_orphan_is_found_unless_something_died_then(check: SoakCheck) -> None:
    orphan = data_files(check)[0].with_name("data-orphan.parquet")
    orphan.write_bytes(b"")
    time = orphan.stat().st_mtime
    check.check([(time - 1, time + 1)])
    assert check.wrong == []
    assert list(check.orphans) == [orphan.name]
    assert "1 orphans are of no crash: ['data-orphan.parquet']" in wrong(check)


@pytest.mark.java
def test_paimon_s_reader_judges_as_well(check: SoakCheck, paimon_java: PaimonJava) -> None:
    assert wrong(check) == ""
    check.check_with_java(paimon_java)
    assert check.wrong == []
    assert (check.java_rows, check.java_changes) == (check.rows, check.changes_replayed)
    data_files(check)[-1].unlink()
    check.check_with_java(paimon_java)
    assert "Paimon's Java reader fails" in check.wrong[0]
