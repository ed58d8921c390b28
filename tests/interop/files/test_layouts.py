"""Each option that moves files, or changes how they are written, works in a table of Paimon's.

Whatever the option: `check` finds nothing wrong in a sound table, upkeep takes away what nothing
names and no more, and rows are those that Paimon reads, or are refused with the option's name.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import stream_app
from stream_app.app.cli.main import main
from stream_app.errors import UnsupportedTableError
from stream_app.table.opening import open_file_store_table, require_writable
from stream_app.table.upkeep.orphan_files import plan_orphans
from tests.support.interop.compacted_tables import FAR_FUTURE_MS
from tests.support.jobs.table_writer import CompactInCaller, TableWriter, by_content
from tests.support.judges.normal_rows import normal_rows
from tests.support.judges.paimon_java import PaimonJava
from tests.support.tables.small_table import Change
from tests.support.tables.sound_table import sound_report, unchecked_rows

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]

COLUMNS = [("part", "STRING"), ("day", "DATE"), ("k", "INT NOT NULL"), ("v", "STRING")]
NOT_REPLAYED = "there is no earlier version whose rows it could begin with"
VECTORS_IN_BUCKETS = {
    "deletion-vectors.enabled": "true",
    "index-file-in-data-file-dir": "true",
}


@dataclass(frozen=True)
class Layout:
    """A table's options, and what we say to it.

    Attributes:
        has_key: it has a primary key.
        unwritten: the option that our refusal to write names; empty: we write and compact it.
        unread: the option or file that our refusal to read names; empty: we read it.
        has_unread_changelog: `check` leaves its changelog files out, or replays none of its
            changes, and says so.
    """

    options: dict[str, str] = field(default_factory=dict)
    has_key: bool = True
    unwritten: str = ""
    unread: str = ""
    has_unread_changelog: bool = False


EXTERNAL = {
    "data-file.external-paths": "file://{outside}",
    "data-file.external-paths.strategy": "round-robin",
}
ELSEWHERE = "data-file.external-paths.strategy = round-robin"
INPUT = {"changelog-producer": "input"}
POSTPONED = {"bucket": "-2"}

LAYOUTS = {
    "plain": Layout(),
    "no key": Layout(has_key=False),
    "no key, in buckets": Layout(
        {"bucket": "2", "bucket-key": "k", "bucket-append-ordered": "false"}, has_key=False
    ),
    # Where files lie.
    "path-directory": Layout({"data-file.path-directory": "data"}),
    "path-directory, deep": Layout({"data-file.path-directory": "data/files/"}),
    "path-directory, no key": Layout({"data-file.path-directory": "data"}, has_key=False),
    "path-directory, vectors": Layout(
        {**VECTORS_IN_BUCKETS, "data-file.path-directory": "data"},
        unwritten="index-file-in-data-file-dir = true",
    ),
    "external paths": Layout(EXTERNAL, unwritten=ELSEWHERE),
    "external paths, no key": Layout(EXTERNAL, has_key=False, unwritten=ELSEWHERE),
    "external paths, vectors": Layout({**VECTORS_IN_BUCKETS, **EXTERNAL}, unwritten=ELSEWHERE),
    "external paths, changelog": Layout({**EXTERNAL, **INPUT}, unwritten=ELSEWHERE),
    "external paths, not used": Layout({"data-file.external-paths": "file://{outside}"}),
    "vectors": Layout({"deletion-vectors.enabled": "true"}),
    "vectors in buckets": Layout(
        VECTORS_IN_BUCKETS, unwritten="index-file-in-data-file-dir = true"
    ),
    "names of dates": Layout({"partition.legacy-name": "false"}),
    "name of null": Layout({"partition.default-name": "nothing"}),
    "prefixes": Layout(
        {"data-file.prefix": "rows-", "changelog-file.prefix": "changes-", **INPUT}
    ),
    "suffix": Layout({"file.suffix.include.compression": "true"}),
    "success files": Layout({"tag.create-success-file": "true"}),
    # How metadata is written.
    "manifests as ORC": Layout({"manifest.format": "orc"}, unwritten="manifest.format = orc"),
    "manifests as Parquet": Layout(
        {"manifest.format": "parquet"}, unwritten="manifest.format = parquet"
    ),
    **{
        f"manifests by {codec}": Layout({"manifest.compression": codec})
        for codec in ("null", "deflate", "snappy", "bzip2")
    },
    "deletes without statistics": Layout({"manifest.delete-file-drop-stats": "true"}),
    **{
        f"statistics {mode}": Layout({"metadata.stats-mode": mode})
        for mode in ("none", "counts", "full", "truncate(2)")
    },
    "statistics by level": Layout({"metadata.stats-mode.per.level": "0:none,5:counts"}),
    "statistics of all": Layout({"metadata.stats-dense-store": "false"}),
    "statistics of some": Layout({"metadata.stats-keep-first-n-columns": "2"}),
    "statistics by column": Layout({"fields.v.stats-mode": "none"}),
    # How rows are written.
    **{
        f"rows by {codec}": Layout({"file.compression": codec})
        for codec in ("none", "gzip", "snappy", "lz4")
    },
    "rows by zstd 9": Layout({"file.compression.zstd-level": "9"}),
    "rows by level": Layout({"file.compression.per.level": "0:snappy,5:gzip"}),
    "Parquet 2": Layout({"parquet.writer.version": "v2", "parquet.enable.dictionary": "false"}),
    "small row groups": Layout({"file.block-size": "1 kb"}),
    "no key columns": Layout({"data-file.thin-mode": "true"}),
    "index in manifests": Layout({"file-index.bloom-filter.columns": "v"}),
    "index in files": Layout(
        {"file-index.bloom-filter.columns": "v", "file-index.in-manifest-threshold": "1 b"}
    ),
    "rows as ORC": Layout({"file.format": "orc"}),
    "rows as ORC, no key": Layout({"file.format": "orc"}, has_key=False),
    "rows as ORC, vectors": Layout({"file.format": "orc", "deletion-vectors.enabled": "true"}),
    "rows as ORC, changelog": Layout({"file.format": "orc", **INPUT}),
    "rows as Avro": Layout({"file.format": "avro"}),
    "rows as Avro, no key": Layout({"file.format": "avro"}, has_key=False),
    "rows as Avro, changelog": Layout({"file.format": "avro", **INPUT}),
    "formats by level": Layout({"file.format.per.level": "0:orc,5:parquet"}),
    "formats by level, Avro": Layout({"file.format.per.level": "0:avro"}),
    "clustered": Layout(
        {
            "pk-clustering-override": "true",
            "clustering.columns": "v",
            "deletion-vectors.enabled": "true",
        },
        unwritten="pk-clustering-override = true",
        unread="pk-clustering-override = true",
    ),
    "without a bucket yet": Layout(POSTPONED, has_unread_changelog=True),
    # Changelogs.
    "changelog": Layout(INPUT),
    "changelog as ORC": Layout(
        {**INPUT, "changelog-file.format": "orc"}, has_unread_changelog=True
    ),
    "changelog by gzip": Layout(
        {**INPUT, "changelog-file.compression": "gzip", "changelog-file.stats-mode": "none"}
    ),
    "changelog of lookups": Layout({"changelog-producer": "lookup"}),
    "long changelogs": Layout(
        {**INPUT, "changelog.num-retained.min": "5", "changelog.num-retained.max": "10"}
    ),
    # Other kinds of tables.
    "row tracking": Layout(
        {"row-tracking.enabled": "true"}, has_key=False, unwritten="row-tracking.enabled = true"
    ),
    "data evolution": Layout(
        {"row-tracking.enabled": "true", "data-evolution.enabled": "true"},
        has_key=False,
        unwritten="data-evolution.enabled = true",
    ),
}  # fmt: skip
VARIANTS = {
    "path-directory, deep", "path-directory, no key", "external paths, no key",
    "external paths, vectors", "external paths, not used", "manifests as Parquet",
    "manifests by null", "manifests by deflate", "manifests by bzip2", "statistics counts",
    "statistics full", "statistics of some", "statistics by column", "rows by none",
    "rows by gzip", "rows by lz4", "rows by zstd 9", "index in manifests", "rows as ORC, no key",
    "rows as ORC, vectors", "rows as Avro, no key", "formats by level, Avro", "changelog by gzip",
    "row tracking",
}  # fmt: skip
"""Another value of an option, or kind of table, whose likes are here."""


def rows(epoch: int, keys: Sequence[int]) -> list[Change]:
    """Return rows of two partitions, one of which has a value that its folder's name escapes."""
    return [
        (
            "+I",
            {
                "part": ("a:b %41", "plain")[k % 2],
                "day": dt.date(2024, 1, 1 + k % 2),
                "k": k,
                "v": f"row {k} of epoch {epoch}",
            },
        )
        for k in keys
    ]


def create(paimon_java: PaimonJava, path: Path, layout: Layout) -> None:
    options = {
        key: value.format(outside=path.parent.parent / "outside")
        for key, value in layout.options.items()
    }
    paimon_java.create(
        path,
        COLUMNS,
        primary_keys=("part", "day", "k") if layout.has_key else (),
        partition_keys=("part", "day"),
        options={"bucket": "2" if layout.has_key else "-1", **options},
    )
    for epoch in range(4):
        paimon_java.write(path, rows(epoch, range(epoch, 8 + epoch)), identifier=epoch)
    paimon_java.tag(path, "old", 2)
    if layout.options != POSTPONED:
        paimon_java.compact(path)
    paimon_java.write(path, rows(9, range(3)), identifier=9)


def assert_sound(paimon_java: PaimonJava, path: Path, layout: Layout) -> None:
    """Nothing is wrong, nothing is an orphan, and rows are Paimon's."""
    table = open_file_store_table(str(path))
    if " = " in layout.unread:
        assert layout.unread in unchecked_rows(table)
    else:
        report = sound_report(table)
        unread = " ".join((*report.unread_files, *report.unchecked_parts)).replace(NOT_REPLAYED, "")
        assert layout.unread in unread
    if layout.unread:
        with pytest.raises(UnsupportedTableError, match=layout.unread):
            stream_app.open_table(str(path)).read().read_all()
    else:
        assert layout.has_unread_changelog or unread in ("", "replay of the changes: ")
        rows = normal_rows(stream_app.open_table(str(path)).read().read_all())
        assert by_content(rows) == by_content(paimon_java.read(path))
    assert plan_orphans(table, FAR_FUTURE_MS).files == ()


def data_files(*roots: Path) -> set[str]:
    names = (".parquet", ".orc", ".avro", ".index")
    return {path.name for root in roots for path in root.rglob("*") if path.suffix in names}


def named_files(paimon_java: PaimonJava, path: Path) -> set[str]:
    """Data files of the only snapshot, as Paimon tells them."""
    kinds = ("all", "changelog")
    files = [file for kind in kinds for file in paimon_java.files(path, kind=kind)]
    return {file["file_name"] for file in files}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.variant] * (name in VARIANTS)) for name in LAYOUTS],
)
def test_a_table_of_paimon_stays_sound_while_stream_app_writes_and_expires(
    paimon_java: PaimonJava, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    layout, path = LAYOUTS[name], tmp_path / "db.db" / "t"
    create(paimon_java, path, layout)
    assert_sound(paimon_java, path, layout)
    if layout.unwritten:
        with pytest.raises(UnsupportedTableError, match=layout.unwritten):
            require_writable(open_file_store_table(str(path)))
    else:
        writer = TableWriter(require_writable(open_file_store_table(str(path))), CompactInCaller)
        for epoch in range(20, 26):
            writer.write(rows(epoch, range(epoch, 6 + epoch)))
        writer.commit.compact_due()
        assert isinstance(writer.executor, CompactInCaller)
        assert writer.executor.requests or not layout.has_key or layout.options == POSTPONED
        assert_sound(paimon_java, path, layout)
    tagged_rows = paimon_java.read(path, options={"scan.tag-name": "old"})
    expire: list[Any] = ["expire-snapshots", str(path), "--retain-max", "1", "--retain-min", "1"]
    assert main(expire) == 0, capsys.readouterr().err
    assert by_content(paimon_java.read(path, options={"scan.tag-name": "old"})) == by_content(
        tagged_rows
    )
    assert main(["delete-tag", str(path), "old"]) == 0, capsys.readouterr().err
    if "changelog.num-retained.min" not in layout.options:
        file_names = {
            file for file in data_files(path, tmp_path / "outside") if ".index" not in file
        }
        assert file_names == named_files(paimon_java, path)
    paimon_java.write(path, rows(50, range(3)), identifier=50)
    assert_sound(paimon_java, path, layout)


@pytest.mark.parametrize("is_ours", [True, False])
@pytest.mark.parametrize("producer", ["input", "lookup", "full-compaction", "none"])
@pytest.mark.parametrize(
    ("tag", "older"), [pytest.param(1, None, marks=pytest.mark.variant), (4, None), (4, 3)]
)
def test_a_table_that_went_back_to_a_tag_of_an_expired_snapshot_is_sound(
    paimon_java: PaimonJava, tmp_path: Path, producer: str, tag: int, older: int | None,
    is_ours: bool,
) -> None:  # fmt: skip
    """The snapshot comes back without its changelog, which had expired with it."""
    path = tmp_path / "db.db" / "t"
    options = {"bucket": "1", "changelog-producer": producer}
    columns = [("k", "INT NOT NULL"), ("v", "STRING")]
    paimon_java.create(path, columns, primary_keys=["k"], options=options)

    def write(epoch: int) -> None:
        changes = [("+I", {"k": k, "v": str(epoch)}) for k in range(epoch, 5 + epoch)]
        paimon_java.write(path, changes, identifier=epoch)

    for epoch in range(6):
        write(epoch)
    paimon_java.tag(path, "keep", tag)
    if older is not None:
        paimon_java.tag(path, "older", older)
    paimon_java.expire(path, retain_max=1, retain_min=1)
    if is_ours:
        assert main(["rollback-to", str(path), "--tag", "keep"]) == 0
        assert plan_orphans(open_file_store_table(str(path)), FAR_FUTURE_MS).files == ()
    else:
        paimon_java.roll_back(path, tag="keep")
        plan_orphans(open_file_store_table(str(path)), FAR_FUTURE_MS)  # its rollback leaves orphans
    table = open_file_store_table(str(path))
    assert table.snapshots.ids() == [tag]
    sound_report(table)
    write(7)
    assert sound_report(table).replayed_changes != []
    rows = normal_rows(stream_app.open_table(str(path)).read().read_all())
    assert by_content(rows) == by_content(paimon_java.read(path))


def test_the_folder_of_a_branch_is_the_branch(paimon_java: PaimonJava, tmp_path: Path) -> None:
    path = tmp_path / "db.db" / "t"
    create(paimon_java, path, Layout())
    paimon_java.branch(path, "x", "old")
    branch = f"{path}/branch/branch-x"
    paimon_java.write(f"{path}$branch_x", rows(70, range(3)), identifier=70)
    branch_rows = normal_rows(stream_app.open_table(branch).read().read_all())
    assert by_content(branch_rows) == by_content(paimon_java.read(f"{path}$branch_x"))
    assert by_content(branch_rows) != by_content(paimon_java.read(path))
    assert sound_report(open_file_store_table(branch)).version_count == 3  # one is the tag
    assert stream_app.open_table(branch).location == branch
    assert main(["check", branch]) == main(["inspect", branch, "files"]) == 0
    writable = require_writable(open_file_store_table(branch))
    assert (writable.location, writable.branch, writable.version_root) == (str(path), "x", branch)
    assert main(["expire-snapshots", branch]) == 0
    assert main(["remove-orphan-files", branch]) != 0, "the branch's files may be the table's"
    assert sound_report(open_file_store_table(str(path))).branch_count == 1
