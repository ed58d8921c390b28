"""A verb exits with 2 when its input must change, and with 1 when it fails or finds something.

3: `check` found nothing wrong, and could not compare everything.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from stream_app.app.cli.main import main
from stream_app.app.cli.output.finding_output import exit_code
from stream_app.app.cli.verb_list import VERBS
from stream_app.model.finding import FindingKind
from tests.support.tables.small_table import SmallTable, small_table

pytestmark = pytest.mark.usefixtures("unsynced")

OF_A_TABLE = {
    "read": "", "changelog": "", "inspect": "", "check": "", "expire-snapshots": "",
    "expire-partitions": "--expiration-time 1d", "create-tag": "x", "delete-tag": "x",
    "rollback-to": "--snapshot 1", "drop-partition": "dt=1", "truncate": "",
    "remove-orphan-files": "", "compact": "--dry-run", "alter": "--set num-levels=5",
    "analyze": "", "branch list": "",
}  # fmt: skip
NO_TABLES = (
    "nowhere", "folder", "file", "file/x", "'shop.db'", "ftp://host/t", "s3://bucket", "gs://b/t",
)  # fmt: skip
WRONG = """
read T --where "nope = 1"
read T --where "k = = 1"
read T --where "k = 'x'"
read T --columns nope
read T --limit -1
read T --limit x
read T --tag nope
read T --tag a/b
read T --snapshot 9
read T --timestamp never
read T --timestamp 1
read T --watermark 5
read T --format parquet
read T --out folder
read T --out file/x
read T --out nowhere/x
changelog T --from nope
changelog T --from 9
changelog T --from 3 --to 1
changelog T --to 0
changelog T --where "nope = 1"
changelog T --columns nope
changelog T --ignore-progress
changelog T --consumer a/b
changelog T --to-kafka nope
changelog T --to-kafka host:port/topic
changelog T --to-kafka host:9092/topic --format jsonl
inspect T nope
inspect T files --partition x
inspect T files --partition nope=1
inspect T files --bucket -1
inspect T files --snapshot 9
inspect T files --tag nope
inspect T files --timestamp never
inspect T tags --bucket 0
check T --conf nowhere
check T --conf folder
check T --conf file/x
check T --conf file
check T --source-kafka x
check T --source-kafka host:port/topic
check T --source-kafka localhost:1/other
expire-snapshots T --retain-max 0
expire-snapshots T --retain-max 2 --retain-min 5
expire-snapshots T --older-than never
expire-snapshots T --older-than 9999999999999
expire-snapshots T --max-deletes 0
expire-partitions T
expire-partitions T --expiration-time long
expire-partitions T --expiration-time 5
expire-partitions T --expiration-time 5d --timestamp-formatter nope
expire-partitions T --expiration-time 5d --timestamp-pattern $nope
create-tag T a/b
create-tag T x --snapshot 9
create-tag T x --time-retained long
delete-tag T nope
branch list T x
branch create T
branch create T main
branch create T 7
branch create T a/b
branch create T x --tag nope
branch delete T nope
branch delete T nope --tag x
branch fast-forward T nope
read 'T$branch_nope'
rollback-to T
rollback-to T --snapshot 9
rollback-to T --tag nope
rollback-to T --timestamp never
drop-partition T
drop-partition T nope=1
drop-partition T x
rescale T --buckets 0
rescale T --buckets many
rescale T --partition nope=1
analyze T --columns nope
alter T
alter T --add-column x
alter T --add-column "k INT"
alter T --drop-column k
alter T --set nope=1
status
status --conf nowhere
resume
resume --conf nowhere
doctor
doctor --conf nowhere
top --conf nowhere
top --warehouse nowhere
top --interval 0
web --conf nowhere
web --warehouse nowhere
web --port x
backfill
backfill T
backfill T --conf nowhere
backfill orders --conf job.toml
check orders --conf job.toml
status --conf job.toml --table orders
quarantine list --conf job.toml
backfill T --from-topic x
backfill T --from-topic localhost:1/other
backfill T --from-topic localhost:1/other --from never
quarantine
quarantine list
quarantine list --conf nowhere
quarantine list nowhere
quarantine drop nowhere --all
quarantine show folder --table x
init --from-topic t
init --from-topic t --conf nowhere
init --from-topic t --conf file
init --from-topic t --bootstrap-servers x --type-mapping nope
init --from-topic t --bootstrap-servers x --source-format nope
remove-orphan-files T --older-than soon
remove-orphan-files T --older-than 0s
compact T --dry-run --conf nowhere
compact nothing --dry-run --conf job.toml
compact T --dry-run --where "k = 1"
compact T --dry-run --where "dt = = 1"
compact T --dry-run --partition nope=1
compact T --dry-run --partition-idle-time long
compact T --dry-run --set bukket=1
compact T --dry-run --set bucket=7
compact T --dry-run --set nope
compact T --dry-run --full --follow
compact T --dry-run --order-by k
compact T --dry-run --order-strategy zorder
compact T --dry-run --order-strategy nope --order-by k
compact T --dry-run --order-strategy zorder --order-by k
compact T --order-strategy zorder --order-by k --follow
ingest
ingest --conf nowhere --print
ingest --conf folder --print
ingest --conf file --print
demo --records 0
demo --dir file
broker
broker folder http
nope
"""
DAMAGED = """
read DAMAGED
changelog DAMAGED
inspect DAMAGED files
expire-snapshots DAMAGED
create-tag DAMAGED x
truncate DAMAGED
rescale DAMAGED
remove-orphan-files DAMAGED
compact DAMAGED --dry-run
"""
FAILED = """
check DAMAGED
"""
DONE = """
read T --limit 1
read T --where "k = 1" --out rows
inspect T tags
inspect T consumers
check T
expire-snapshots T --dry-run
delete-tag T opening --dry-run
rescale T --buckets 2
rescale T --buckets auto --dry-run
drop-partition T dt=1
remove-orphan-files T --dry-run
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("commands")
    for name in ("t", "damaged"):
        table = a_table(root / "shop.db" / name)
        assert main(["create-tag", table.path, "opening", "--snapshot", "1"]) == 0
    (root / "shop.db" / "damaged" / "snapshot" / "snapshot-3").write_text("{")
    (root / "folder").mkdir()
    (root / "file").write_text("text")
    (root / "job.toml").write_text(
        '[source]\nbootstrap-servers = "localhost:1"\ntopics = ["t"]\n[sync]\nwarehouse = "."\n'
        'database = "shop"\n[stream]\ncheckpoint = "checkpoint"\n'
    )
    return root


def a_table(path: Path) -> SmallTable:
    table = small_table(
        path, "dt STRING, k INT, v STRING", ("dt", "k"), ("dt",), changelog_producer="input"
    )
    for epoch in range(3):
        table.commit(("+I", {"dt": "2026-01-01", "k": epoch, "v": "x"}))
    return table


def cases() -> list[tuple[int, str]]:
    no_tables = [
        f"{verb} {location} {more}" for verb, more in OF_A_TABLE.items() for location in NO_TABLES
    ]
    return [
        *((2, line) for line in no_tables),
        *((2, line) for line in WRONG.strip().splitlines()),
        *((2, line) for line in DAMAGED.strip().splitlines()),
        *((1, line) for line in FAILED.strip().splitlines()),
        *((0, line) for line in DONE.strip().splitlines()),
    ]


@pytest.mark.slow
def test_errors_have_their_exit_codes(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One test has all cases, because a case costs less than a test."""
    monkeypatch.chdir(folder)
    locations = {"T": "shop.db/t", "DAMAGED": "shop.db/damaged"}
    results = []
    for _, line in cases():
        words = [locations.get(word, word) for word in shlex.split(line)]
        got, stderr = main(words), capsys.readouterr().err
        assert not got or stderr.strip() or words[0] == "check", line
        assert "Traceback" not in stderr, stderr
        results.append((got, line))
    assert results == cases()


@pytest.mark.parametrize("name", ["NUL \0", "x" * 300])
def test_a_text_that_can_be_no_name_is_refused(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    table = a_table(tmp_path / "shop.db" / "t").path
    for words in (
        ["read", name],
        ["create-tag", table, name],
        ["delete-tag", table, name],
        ["changelog", table, "--consumer", name],
        ["read", table, "--out", name + "/x"],
    ):
        code, stderr = main(words), capsys.readouterr().err
        assert code == 2, (words, stderr)
        assert "to fix" in stderr, words


def test_a_table_is_found_by_its_name_in_the_warehouse(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    a_table(tmp_path / "warehouse" / "shop.db" / "orders")
    a_table(tmp_path / "else where" / "shop.db" / "orders")
    assert main(["read", "shop.orders", "--format", "csv"]) == 0
    assert main(["inspect", "shop.orders", "snapshots"]) == 0
    assert capsys.readouterr().out.startswith('"dt","k","v"\n')
    assert main(["read", "shop.customers"]) == 2
    assert "warehouse/shop.db/customers" in capsys.readouterr().err
    monkeypatch.setenv("STREAM_APP_TABLE__WAREHOUSE", str(tmp_path / "else where"))
    monkeypatch.chdir("/")
    assert main(["read", "shop.orders", "--limit", "1"]) == 0


def test_every_verb_is_tried() -> None:
    tried_verbs = {line.split()[0] for code, line in cases() if code == 2}
    assert {verb.name for verb in VERBS} <= tried_verbs


def test_a_configuration_of_another_table_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    table = a_table(tmp_path / "warehouse" / "shop.db" / "t")
    text = """
        [source]
        bootstrap-servers = "127.0.0.1:1"
        topics = ["orders"]
        [table]
        warehouse = "./warehouse"
        database = "shop"
        name = "{name}"
        columns = "dt STRING NOT NULL, k INT NOT NULL, v STRING"
        primary-keys = ["dt", "k"]
        options.bucket = 1
        [stream]
        checkpoint = "./checkpoint"
    """
    for name in ("t", "u"):
        Path(f"{name}.toml").write_text(text.format(name=name))
    assert main(["check", table.path, "--conf", "u.toml"]) == 2
    stderr = capsys.readouterr().err
    assert "u.toml is the configuration of another table: ./warehouse/shop.db/u" in stderr
    assert main(["check", "warehouse/shop.db/t/", "--conf", "t.toml"]) == 2
    assert "no snapshot records how far a job has read orders" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kinds", "code"),
    [
        ((), 0),
        ((FindingKind.NOT_COMPARED,), 3),
        ((FindingKind.WAITING_ROWS,), 3),
        ((FindingKind.ICEBERG,), 3),
        ((FindingKind.NOT_COMPARED, FindingKind.WAITING_ROWS), 3),
        ((FindingKind.WAITING_ROWS, FindingKind.BUCKET), 1),
        ((FindingKind.NOT_COMPARED, FindingKind.SOURCE), 1),
        ((FindingKind.HINT,), 1),
    ],
)
def test_what_differs_comes_before_what_was_not_compared(
    kinds: tuple[FindingKind, ...], code: int
) -> None:
    assert exit_code(kinds) == code
