"""``check --source`` compares PostgreSQL's arrays, as Debezium sends them, with the table's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from stream_app.app.cli.main import main
from stream_app.table.api.paimon_table import open_table
from tests.support.jobs.ingest_process import write_conf
from tests.support.jobs.ingest_server import IngestServer
from tests.testbed.servers.postgres import USER
from tests.testbed.source_database import SourceDatabase
from tests.testbed.testbed import Testbed

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.java, pytest.mark.slow]
ARRAYS = {
    "numbers": ("int[]", "STRING", "'{1,-2,NULL}'"),
    "texts": (
        "text[]", "STRING",
        r"array[E'\x01\x7f\x1f \b\f\n\r\t \\ \" / <żółć>🚀', 'null', null, ']', ';,']",
    ),
    "moods": ("mood[]", "STRING", "array['sad', 'ok']::mood[]"),
    "small": ("smallint[]", "ARRAY<SMALLINT>", "'[3:4]={7,8}'"),
    "words": (
        "varchar(20)[]", "ARRAY<STRING>",
        "array['a', 'b c', null, '', ']', ';,', 'null', 'é']",
    ),
    "states": ("mood[]", "ARRAY<STRING>", "array['ok']::mood[]"),
    "truths": ("boolean[]", "ARRAY<BOOLEAN>", "'{t,f,NULL}'"),
    "ids": ("uuid[]", "ARRAY<STRING>", "array['00000000-0000-0000-0000-00000000000A'::uuid]"),
    "prices": ("numeric(9,2)[]", "ARRAY<DECIMAL(9, 2)>", "'{1.5,-0.01,NULL}'"),
    "reals": ("double precision[]", "ARRAY<DOUBLE>", "'{0.1,-1e300,NULL}'"),
}  # fmt: skip


@pytest.fixture
def database(testbed: Testbed) -> Iterator[SourceDatabase]:
    with testbed.postgres_database("equal_arrays") as database:
        database.execute("create type mood as enum ('sad', 'ok')")
        columns = ", ".join(f"{name} {kind}" for name, (kind, *_) in ARRAYS.items())
        database.execute(f"create table t (k int primary key, {columns}, days date[], odd int[])")
        values = ", ".join(value for *_, value in ARRAYS.values())
        empty = ", ".join(["'{}'"] * len(ARRAYS))
        nulls = ", ".join(["null"] * (len(ARRAYS)))
        for k, row in enumerate((values, empty, nulls)):
            database.execute(f"insert into t values ({k}, {row}, '{{2024-02-29}}', '{{1}}')")
        yield database


def test_a_table_with_arrays_is_proven(
    tmp_path: Path,
    testbed: Testbed,
    ingest_server: IngestServer,
    database: SourceDatabase,
    capsys: pytest.CaptureFixture[str],
) -> None:
    database.start_connector(testbed.connect, {"decimal.handling.mode": "string"})
    database.wait_until_sent(testbed.connect)
    lake = ", ".join(f"{name} {kind}" for name, (_, kind, _) in ARRAYS.items())
    conf = write_conf(
        tmp_path / "job.toml",
        source={
            "bootstrap-servers": testbed.broker.bootstrap,
            "topics": ["equal_arrays.shop.t"],
            "debezium.decimal.handling.mode": "string",
        },
        table={
            "warehouse": str(tmp_path / "warehouse"),
            "database": "ods",
            "name": "t",
            "columns": f"k INT, {lake}, days STRING, odd STRING",
            "primary-keys": ["k"],
            "options.changelog-producer": "lookup",
            "options.bucket": "1",
        },
        stream={"checkpoint": str(tmp_path / "checkpoint"), "trigger": "availableNow"},
        spark={"spark.master": "local[2]"},
    )
    result = ingest_server.run(conf)
    assert result.code == 0, result.output
    url = f"jdbc:postgresql://127.0.0.1:{testbed.postgres.port}/equal_arrays?user={USER}"
    words = ["check", "--conf", str(conf), "--source", url, "--record", "--wait", "1s"]
    capsys.readouterr()
    code = main(words)
    text = capsys.readouterr().out
    assert code == 3, text
    assert "columns were left out: days (date[])" in text
    assert "shop.t, at LSN 0/" in text

    main(["status", "--conf", str(conf), "--json"])
    [status] = map(json.loads, capsys.readouterr().out.splitlines())
    assert status["proven_at"].startswith("LSN 0/")
    assert status["proven_without"] == "days (date[])"

    database.execute("update t set words = array['other'] where k = 1")
    database.execute("update t set texts = null where k = 0")
    assert main(words) == 1
    assert "2 rows have other values" in (text := capsys.readouterr().out)
    assert "k = 0; k = 1" in text
    database.execute("update t set odd = array[array[1], array[2]] where k = 2")
    database.wait_until_sent(testbed.connect)
    assert ingest_server.run(conf).code == 0
    [row] = (
        open_table(str(tmp_path / "warehouse/ods.db/t")).read(where="k = 2").read_all().to_pylist()
    )
    assert row["odd"] == "[null,null]", "Debezium sends no arrays of arrays"
    assert main(words) == 1
    text = capsys.readouterr().out
    assert "1 rows have other values" in text
    assert "k = 2\n" in text
