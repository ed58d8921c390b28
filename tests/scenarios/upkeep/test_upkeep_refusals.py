"""Upkeep refuses the tables that it cannot maintain, before it changes anything."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from stream_app.app.cli.main import main
from stream_app.errors import TableNotFoundError, UnsupportedTableError
from stream_app.model.files.manifest_entry import ManifestEntry
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import new_table_schema
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import create_or_open, open_file_store_table
from stream_app.table.upkeep.file_deletion import FileCollector
from stream_app.table.upkeep.manifest_cache import ManifestCache
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.files.plain_object import plain_object
from tests.support.histories.tagged_history import add_tag
from tests.support.servers.s3_server import ACCESS_KEY, SECRET_KEY, S3Server
from tests.support.tables.small_table import TIME_MS, SmallTable, small_table

pytestmark = pytest.mark.usefixtures("unsynced")

DELETING = {
    "expire-snapshots": ("--retain-max", "1", "--retain-min", "1"),
    "delete-tag": ("old",),
    "rollback-to": ("--snapshot", "3"),
}
ORPHANS = {"remove-orphan-files": ("--older-than", "0s", "--no-writers")}
TAGGING = {"create-tag": ("new",)}


def a_table(folder: Path, options: Mapping[str, str]) -> FileStoreTable:
    """Four commits of one key, the first with a tag; the options get into the schema's file."""
    small = small_table(folder / "t", "k INT NOT NULL, v STRING", ("k",))
    for number in range(4):
        small.commit(("+I", {"k": 1, "v": str(number)}))
    add_tag(small.table, "old", 1)
    file = Path(small.path, "schema", "schema-0")
    schema = plain_object(file.read_bytes())
    file.write_text(json.dumps({**schema, "options": {**schema["options"], **options}}))
    return small.table


def all_files(table: FileStoreTable) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in Path(table.location).rglob("*") if path.is_file()}


REFUSALS = [
    (key, value, verb)
    for key, value in (("branch", "b"), ("type", "object-table"))
    for verb in (*DELETING, *ORPHANS, *TAGGING, "check")
]


@pytest.mark.parametrize(("key", "value", "verb"), REFUSALS)
def test_a_command_that_cannot_find_the_files_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], key: str, value: str, verb: str
) -> None:
    table = a_table(tmp_path, {key: value})
    before = all_files(table)
    rest = {**DELETING, **ORPHANS, **TAGGING, "check": ()}[verb]
    assert main([verb, table.location, *rest]) == 2
    assert f"cannot find all versions and files of this table: {key} = {value}" in (
        capsys.readouterr().err
    )
    assert all_files(table) == before


TAKEN = [
    {"merge-engine": "partial-update", "file.format": "orc", "type": "materialized-table"},
    {"changelog-producer": "lookup", "deletion-vectors.enabled": "true"},
    {"bucket": "-2", "row-tracking.enabled": "true", "branch": "main"},
]


@pytest.mark.parametrize("options", TAKEN)
def test_options_about_the_meaning_of_rows_do_not_stop_upkeep(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: dict[str, str]
) -> None:
    table = a_table(tmp_path, options)
    for verb in ("create-tag", "rollback-to", "expire-snapshots", "delete-tag"):
        rest = {**DELETING, **TAGGING}[verb]
        assert main([verb, table.location, *rest]) == 0, (verb, capsys.readouterr().err)
    assert table.snapshots.ids() == [3]
    assert table.tags.names() == []
    assert main(["remove-orphan-files", table.location, *ORPHANS["remove-orphan-files"]]) == 0


@pytest.mark.parametrize("verb", [*DELETING, *ORPHANS, "check", "read"])
def test_a_folder_of_the_whole_file_system_is_not_looked_for_in_the_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    """Paimon reads a data-file.path-directory that begins with a slash in this way."""
    table = a_table(tmp_path, {"data-file.path-directory": "/nowhere"})
    before = all_files(table)
    rest = {**DELETING, **ORPHANS}.get(verb, ())
    assert main([verb, table.location, *rest]) == 2
    assert "data-file.path-directory = /nowhere" in capsys.readouterr().err
    assert all_files(table) == before


def test_a_table_may_be_named_as_branches_are(tmp_path: Path) -> None:
    table = a_table(tmp_path / "branch" / "branch-x", {})
    moved_folder = Path(table.location).rename(tmp_path / "branch" / "branch-t")
    assert open_file_store_table(str(moved_folder)).branch == ""
    with pytest.raises(TableNotFoundError, match="no schema") as error:
        open_file_store_table(str(tmp_path / "branch" / "branch-x"))
    assert error.value.where.endswith("/branch/branch-x")


@pytest.mark.parametrize("kind", ["data", "changelog"])
def test_a_file_at_an_external_path_is_refused_and_not_counted_as_deleted(
    tmp_path: Path, kind: str
) -> None:
    """An option that was unset since has left such a file."""
    table = a_table(tmp_path, {})
    entry = FileStoreScan(table).live(table.snapshots.latest())[0]
    elsewhere: ManifestEntry = replace(
        entry, file=replace(entry.file, external_path="s3://elsewhere/f")
    )
    collector = FileCollector(ManifestCache(table))
    add = collector.add_data_files if kind == "data" else collector.add_changelog_files
    with pytest.raises(UnsupportedTableError, match="s3://elsewhere/f"):
        add([elsewhere])


def test_tags_and_rollbacks_need_a_store_with_conditional_writes(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    location = f"s3://{s3.new_bucket()}/t"
    schema = new_table_schema(
        columns=parse_columns("k INT"), primary_keys=("k",), partition_keys=(),
        options={"bucket": "1"}, time_ms=TIME_MS,
    )  # fmt: skip
    SmallTable(create_or_open(location, schema, file_io_options=s3.options)).commit(
        ("+I", {"k": 1})
    )
    for name, value in (
        ("AWS_ENDPOINT_URL_S3", s3.endpoint),
        ("AWS_ACCESS_KEY_ID", ACCESS_KEY),
        ("AWS_SECRET_ACCESS_KEY", SECRET_KEY),
    ):
        monkeypatch.setenv(name, value)
    s3.ignores_conditions = True
    for verb in (("create-tag", location, "a"), ("rollback-to", location, "--snapshot", "1")):
        assert main([*verb]) == 2
        assert "does not write to this file system" in capsys.readouterr().err
    assert main(["expire-snapshots", location]) == 0, "nobody races for what it writes"
