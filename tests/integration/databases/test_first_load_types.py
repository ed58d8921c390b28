"""A first load stores the values of databases' own types as a later change stores them."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_app.table.api.paimon_table import open_table
from stream_app.table.overwrite.postponed_move import move_postponed
from tests.support.jobs.ingest_process import write_conf
from tests.support.jobs.ingest_server import IngestServer
from tests.testbed.servers.mariadb import PASSWORD
from tests.testbed.servers.mariadb import USER as MARIADB_USER
from tests.testbed.servers.postgres import USER
from tests.testbed.testbed import Testbed

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.java, pytest.mark.slow]
ODD_POSTGRES = {
    "numbers": ("int[]", "STRING"),
    "words": ("varchar(20)[]", "ARRAY<STRING>"),
    "texts": ("text[]", "STRING"),
    "truths": ("boolean[]", "ARRAY<BOOLEAN>"),
    "ids": ("uuid[]", "STRING"),
    "host": ("inet", "STRING"),
    "net": ("cidr", "STRING"),
    "mac": ("macaddr", "STRING"),
    "bits": ("bit(12)", "BINARY(2)"),
    "flag": ("bit(1)", "BOOLEAN"),
    "tags": ("jsonb", "ARRAY<STRING>"),
    "doc": ("jsonb", "VARIANT"),
    "raw": ("json", "VARIANT"),
}
ODD_MARIADB = {"bits": ("bit(12)", "BINARY(2)"), "flag": ("bit(1)", "BOOLEAN")}
ODD_VALUES = {
    "numbers": ("'{1,-2,NULL}'", "'{}'"),
    "words": ('\'{a,"b c",NULL,""}\'', "array['it''s']"),
    "texts": (r"array[E'\x01\x7f\x1f \b\f\n\r\t \\ \" / <żółć>🚀', 'null', null]", "array['[1]']"),
    "truths": ("'{t,f,NULL}'", "'{f}'"),
    "ids": ("array['00000000-0000-0000-0000-00000000000A'::uuid]", "'{}'"),
    "host": ("'10.1.2.7/8'", "'::1'"),
    "net": ("'10.0.0.0/8'", "'10.1.2.7/32'"),
    "mac": ("'08:00:2B:01:02:03'", "'080027010203'"),
    "bits": ("b'000000000101'", "b'100000000001'"),
    "flag": ("b'1'", "b'0'"),
    "tags": ("""'["x", null, "y\\u00e9"]'""", "'[]'"),
    "doc": ("""'{"b": [1, 2.50, "ü\\n"], "a": {"c": null}}'""", "'17'"),
    "raw": ("""'{"b" : 1e2}'""", "'[]'"),
}


@pytest.mark.parametrize("kind", ["pg", "my"])
def test_database_specific_types_load_as_later_changes_have_them(
    tmp_path: Path, testbed: Testbed, ingest_server: IngestServer, kind: str
) -> None:
    """A row of the load equals its copy that Debezium sends, in postponed buckets."""
    columns = ODD_POSTGRES if kind == "pg" else ODD_MARIADB
    database_kind = testbed.postgres_database if kind == "pg" else testbed.mariadb_database
    with database_kind(f"load_own_{kind}") as database:
        schema = "shop" if kind == "pg" else database.name
        place = f"127.0.0.1:{testbed.mariadb.port}/{database.name}"
        url = f"jdbc:mariadb://{MARIADB_USER}@{place}"
        if kind == "pg":
            url = f"jdbc:postgresql://127.0.0.1:{testbed.postgres.port}/{database.name}?user={USER}"
        types = ", ".join(f"{name} {source}" for name, (source, _) in columns.items())
        database.execute(f"create table t (k int primary key, {types})")
        values = [", ".join(ODD_VALUES[name][index] for name in columns) for index in (0, 1)]
        nulls = ", ".join(["null"] * len(columns))
        database.start_connector(testbed.connect, {"snapshot.mode": "no_data"})
        database.wait_until_sent(testbed.connect)
        for k, row in enumerate([*values, nulls]):
            database.execute(f"insert into t values ({k}, {row})")
        database.wait_until_sent(testbed.connect)
        conf = write_conf(
            tmp_path / "job.toml",
            source={
                "bootstrap-servers": testbed.broker.bootstrap,
                "topics": [f"{database.name}.{schema}.t"],
                "snapshot-from": url,
                "snapshot-table": f"{schema}.t",
                "snapshot-password": PASSWORD,
            },
            table={
                "warehouse": str(tmp_path / "warehouse"),
                "database": "ods",
                "name": "t",
                "columns": "k INT, "
                + ", ".join(f"{name} {lake}" for name, (_, lake) in columns.items()),
                "primary-keys": ["k"],
                "options.bucket": "-2",
            },
            stream={"checkpoint": str(tmp_path / "checkpoint"), "trigger": "availableNow"},
            spark={"spark.master": "local[2]"},
        )
        result = ingest_server.run(conf)
        assert result.code == 0, result.output
        assert "first load: epoch" in result.output
        names = ", ".join(columns)
        database.execute(f"insert into t select k + 10, {names} from t")
        database.execute("delete from t where k = 2")
        database.wait_until_sent(testbed.connect)
        result = ingest_server.run(conf)
        assert result.code == 0, result.output
        place = str(tmp_path / "warehouse" / "ods.db" / "t")
        move_postponed(open_table(place).table)
        rows = {row["k"]: row for row in open_table(place).read().read_all().to_pylist()}
        assert rows.keys() == {0, 1, 10, 11, 12}
        for k in (0, 1):
            assert {**rows[k], "k": k + 10} == rows[k + 10]
        assert set(rows[12].values()) == {12, None}
