"""``check --source`` compares a table with a real PostgreSQL and a real MariaDB by checksums."""

from __future__ import annotations

import datetime as dt
import json
import re
from pathlib import Path
from random import Random
from typing import Any

import pytest

from stream_app.app.cli.main import main
from tests.support.jobs.ingest_server import IngestServer
from tests.support.tables.small_table import Change, SmallTable, small_table
from tests.testbed.database_proof import database_proof
from tests.testbed.servers.mariadb import PASSWORD
from tests.testbed.servers.mariadb import USER as MARIADB_USER
from tests.testbed.servers.postgres import USER
from tests.testbed.source_database import SourceDatabase
from tests.testbed.testbed import Testbed
from tests.testbed.value_kinds import KINDS, Kind

pytestmark = [pytest.mark.kafka, pytest.mark.java, pytest.mark.slow]
NOT_HASHED = ("bits", "address", "numbers")
NOT_OF_MARIADB = (*NOT_HASHED, "float", "double")
ROWS = 60
STEPS = 40


def compared_kinds(left_out: tuple[str, ...]) -> dict[str, Kind]:
    """The kinds of values, by the name of a column."""
    return {f"c{index}": KINDS[name] for index, name in enumerate(KINDS) if name not in left_out}


def stored_value(value: Any, lake_type: str) -> Any:
    """A value of a driver as the table has it."""
    if isinstance(value, dt.time):
        seconds = value.hour * 3600 + value.minute * 60 + value.second
        return seconds * 1_000_000 + value.microsecond
    if isinstance(value, dt.timedelta):
        return value // dt.timedelta(microseconds=1)
    return bool(value) if value is not None and lake_type == "BOOLEAN" else value


def fill(
    database: SourceDatabase, kinds: dict[str, Kind], types: dict[str, str], seed: int
) -> None:
    """Make a table with values of every kind, and some nulls."""
    random = Random(seed)
    columns = ", ".join(f"{name} {types[name]}" for name in kinds)
    database.execute(f"create table t (k bigint primary key, {columns})")
    marks = ", ".join(["%s"] * (len(kinds) + 1))
    for k in range(ROWS):
        values = [None if random.random() < 0.2 else kind.make(random) for kind in kinds.values()]
        database.execute(f"insert into t values ({marks})", [k - 5, *values])


def copy_table(
    folder: Path, database: SourceDatabase, kinds: dict[str, Kind], *, is_postgres: bool
) -> SmallTable:
    """A table with the rows of the database."""
    lake = {
        name: kind.from_postgres if is_postgres else kind.from_mariadb or kind.from_postgres
        for name, kind in kinds.items()
    }
    columns = ", ".join(f"{name} {text}" for name, text in lake.items())
    table = small_table(
        folder / "db.db" / "t", f"k BIGINT NOT NULL, {columns}", ("k",),
        changelog_producer="input", **{"stream-app.row-checksum": "true"},
    )  # fmt: skip
    select = ", ".join(
        (kind.postgres_select if is_postgres else "{}").format(name) for name, kind in kinds.items()
    )
    rows: list[Change] = [
        (
            "+I",
            {"k": k, **{n: stored_value(v, lake[n]) for n, v in zip(kinds, values, strict=True)}},
        )
        for k, *values in database.query(f"select k, {select} from t")
    ]
    table.commit(*rows)
    return table


def check(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    capsys.readouterr()
    code = main(["check", *words, "--wait", "1s"])
    output = capsys.readouterr()
    return code, output.out + output.err


def test_postgresql_hashes_every_kind_of_value_alike(
    tmp_path: Path, testbed: Testbed, capsys: pytest.CaptureFixture[str], seed: int
) -> None:
    kinds = compared_kinds(NOT_HASHED)
    with testbed.postgres_database("sums_pg") as database:
        fill(database, kinds, {name: kind.postgres for name, kind in kinds.items()}, seed)
        table = copy_table(tmp_path, database, kinds, is_postgres=True)
        url = f"jdbc:postgresql://127.0.0.1:{testbed.postgres.port}/sums_pg?user={USER}"
        words = (table.path, "--source", url, "--source-table", "shop.t")
        code, text = check(capsys, *words)
        assert (code, "shop.t, at LSN 0/" in text, f"{ROWS} rows" in text) == (0, True, True), text

        database.execute("update t set c2 = 77 where k = 3")
        database.execute("delete from t where k = 4")
        database.execute("insert into t (k) values (1000)")
        code, text = check(capsys, *words)
        assert code == 1
        assert "1 rows have other values" in text
        assert "k = 3\n" in text
        assert "1 rows are not in the source" in text
        assert "k = 4\n" in text
        assert "1 rows are missing" in text
        assert "k = 1000\n" in text


def test_mariadb_hashes_every_kind_but_floats_alike(
    tmp_path: Path, testbed: Testbed, capsys: pytest.CaptureFixture[str], seed: int
) -> None:
    kinds = compared_kinds(NOT_OF_MARIADB)
    with testbed.mariadb_database("sums_maria") as database:
        fill(database, kinds, {name: kind.mariadb for name, kind in kinds.items()}, seed)
        table = copy_table(tmp_path, database, kinds, is_postgres=False)
        place = f"127.0.0.1:{testbed.mariadb.port}/sums_maria"
        words = (table.path, "--source", f"jdbc:mariadb://{MARIADB_USER}:{PASSWORD}@{place}")
        code, text = check(capsys, *words)
        assert (code, f"{ROWS} rows" in text) == (0, True), text
        assert re.search(r"t, at (GTID|binlog position) \S+: ", text), text
        assert PASSWORD not in text
        database.execute("update t set c2 = 77 where k = 3")
        code, text = check(capsys, *words)
        assert (code, "k = 3\n" in text) == (1, True), text


@pytest.mark.spark
def test_all_tables_of_a_job_are_compared_with_both_databases(
    tmp_path: Path,
    testbed: Testbed,
    ingest_server: IngestServer,
    seed: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One command for each database compares twelve tables, whose changes Debezium has sent."""
    urls = (
        f"jdbc:postgresql://127.0.0.1:{testbed.postgres.port}/sums_pg?user={USER}",
        f"jdbc:mariadb://{MARIADB_USER}:{PASSWORD}@127.0.0.1:{testbed.mariadb.port}/sums_my",
    )
    with database_proof(tmp_path, testbed, seed, name="sums") as proof:
        proof.work(STEPS)
        proof.drain(ingest_server)
        conf = str(proof.job.conf)
        left_out: list[str] = []
        for url, database in zip(urls, proof.workloads, strict=True):
            code, text = check(capsys, "--conf", conf, "--source", url, "--record")
            assert code == 3, text
            tables = [f"{database.name}_{table.name}" for table in proof.workloads[database].tables]
            for name in tables:
                assert f"/{name}: equal to jdbc:" in text
            last = next(line for line in text.splitlines() if line.startswith("their rows"))
            assert database.name not in last, "the tables of the other database"
            left_out += re.findall("columns were left out: (.*)", text)
            proofs = [proof_of(conf, name, capsys) for name in tables]
            kind = "LSN 0/" if database.name == "sums_pg" else "GTID "
            assert all(str(proof["proven_at"]).startswith(kind) for proof in proofs), proofs
            without = [proof["proven_without"] for proof in proofs if proof["proven_without"]]
            assert sorted(without) == sorted(re.findall("columns were left out: (.*)", text))
        assert sorted(left_out) == [
            *("address (inet)", "bits (bit(12))", "bits (bit(12))", "f (float), d (double)"),
            "weight (float), height (double)",
        ]
        list(proof.workloads)[1].execute("create table later as select 1 as k")
        code, text = check(capsys, "--conf", conf, "--source", urls[1])
        assert "sums_my.later has rows, and the job has met no message of it" in text


def proof_of(conf: str, table: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Return the lines of `status` about a table's proof."""
    capsys.readouterr()
    main(["status", "--conf", conf, "--json"])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    row: dict[str, Any] = next(row for row in rows if row.get("table") == table)
    return row
