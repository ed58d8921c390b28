"""``stream-app init --from-jdbc`` reads tables of a real PostgreSQL and a real MariaDB."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_app.app.cli.main import main
from stream_app.app.config.app_config import AppConfig, load_config
from tests.support.jobs.table_section import table_section
from tests.testbed.servers.mariadb import PASSWORD
from tests.testbed.servers.mariadb import USER as MARIADB_USER
from tests.testbed.servers.postgres import USER
from tests.testbed.testbed import Testbed

pytestmark = [pytest.mark.kafka, pytest.mark.java, pytest.mark.slow]
POSTGRES = """
    create type mood as enum ('new', 'paid');
    create table orders (
        line int, id bigint, v varchar(20) not null, price numeric(12, 2), big numeric,
        at timestamp(3), zoned timestamptz, day date, flag boolean, raw bytea, tags text[],
        s mood, gone int, primary key (id, line));
    alter table orders drop column gone;
    comment on column orders.v is 'what it is'"""
MARIADB = """
    create table orders (
        line int unsigned, id bigint unsigned, v varchar(20) not null comment 'what it is',
        price decimal(12, 2), tiny tinyint(1), at datetime(3), day date, raw blob, doc longtext,
        s enum('new', 'paid'), y year, where_at point, primary key (id, line))"""
COMMON = ["--topic", "shop.orders", "--bootstrap-servers", "127.0.0.1:9092"]


def columns(config: AppConfig) -> list[str]:
    return [f"{column.name} {column.data_type}" for column in table_section(config).columns]


def test_types_keys_and_comments_are_those_of_the_database(
    tmp_path: Path,
    testbed: Testbed,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def written(url: str, *words: str) -> AppConfig:
        capsys.readouterr()
        assert main(["init", "--from-jdbc", url, *COMMON, *words]) == 0, capsys.readouterr().err
        text = capsys.readouterr().out
        assert "# v: what it is" in text
        assert "secret" not in text
        assert f":{PASSWORD}@" not in text
        conf = tmp_path / "job.toml"
        conf.write_text(text, encoding="utf-8")
        return load_config(conf, (), {})

    with testbed.postgres_database("init_pg") as database:
        for statement in POSTGRES.split(";"):
            database.execute(statement)
        server = f"jdbc:postgresql://127.0.0.1:{testbed.postgres.port}"
        config = written(f"{server}/init_pg?user={USER}&password=secret", "--table", "shop.orders")
        assert main(["init", "--from-jdbc", f"{server}/init_pg?user={USER}", *COMMON]) == 2
        assert "name one by --table: shop.done, shop.orders" in capsys.readouterr().err
    assert (table_section(config).database, table_section(config).name) == ("shop", "orders")
    assert table_section(config).primary_keys == ("id", "line")
    assert columns(config) == [
        "line INT NOT NULL", "id BIGINT NOT NULL", "v VARCHAR(20) NOT NULL",
        "price DECIMAL(12, 2)", "big DECIMAL(38, 18)", "at TIMESTAMP(3)",
        "zoned TIMESTAMP(6) WITH LOCAL TIME ZONE", "day DATE", "flag BOOLEAN", "raw BYTES",
        "tags STRING", "s STRING",
    ]  # fmt: skip

    with testbed.mariadb_database("init_maria") as maria:
        maria.execute(MARIADB)
        place = f"127.0.0.1:{testbed.mariadb.port}/init_maria"
        url = f"jdbc:mysql://{MARIADB_USER}:{PASSWORD}@{place}"
        mapping = "tinyint1-not-bool,to-nullable,longtext-to-bytes"
        plain = written(url, "--table", "orders")
        mapped_schema = written(url, "--table", "orders", "--type-mapping", mapping)
        monkeypatch.setenv("MYSQL_PWD", PASSWORD)
        assert written(url.replace(f":{PASSWORD}@", "@"), "--table", "orders") == plain
        monkeypatch.delenv("MYSQL_PWD")
        wrong = f"jdbc:mariadb://{place}?user={MARIADB_USER}&password=secret"
        assert main(["init", "--from-jdbc", wrong, *COMMON]) != 0
        error = capsys.readouterr().err
        assert "the database cannot be read" in error
        assert "secret" not in error
    assert (
        table_section(plain).primary_keys
        == table_section(mapped_schema).primary_keys
        == ("id", "line")
    )
    assert columns(plain) == [
        "line BIGINT NOT NULL", "id DECIMAL(20, 0) NOT NULL", "v VARCHAR(20) NOT NULL",
        "price DECIMAL(12, 2)", "tiny BOOLEAN", "at TIMESTAMP(3)", "day DATE", "raw BYTES",
        "doc STRING", "s STRING", "y INT", "where_at STRING",
    ]  # fmt: skip
    changed_columns = {"v": "v VARCHAR(20)", "tiny": "tiny TINYINT", "doc": "doc BYTES"}
    assert columns(mapped_schema) == [
        changed_columns.get(column.split()[0], column) for column in columns(plain)
    ]
