"""A job follows renames in a real MariaDB: by SQL, by gh-ost and by pt-online-schema-change.

The tools themselves are not here. Their statements are, in their order, with changes of rows
between them: what the log and Debezium tell of a run is the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stream_app.table.opening import open_file_store_table
from tests.support.jobs.ingest_process import write_conf
from tests.support.jobs.ingest_server import IngestServer
from tests.support.judges.paimon_java import PaimonJava
from tests.testbed.source_database import MariaDbDatabase
from tests.testbed.testbed import Testbed

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.java, pytest.mark.slow]
NAME = "renaming"
COLUMNS = "id int primary key, note varchar(20), n int not null default 0"
RENAMED = "change note remark varchar(40)"
TABLES = ("plain", "ghosted", "osc")
GH_OST = (
    """create /* gh-ost */ table `{db}`.`_ghosted_ghc` (
        id bigint unsigned auto_increment,
        last_update timestamp not null DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
        hint varchar(64) charset ascii not null,
        value varchar(4096) charset ascii not null,
        primary key(id), unique key hint_uidx(hint)) auto_increment=256""",
    "create /* gh-ost */ table `{db}`.`_ghosted_gho` like `{db}`.`ghosted`",
    f"alter /* gh-ost */ table `{{db}}`.`_ghosted_gho` {RENAMED}",
    "insert /* gh-ost */ into `{db}`.`_ghosted_ghc` (id, hint, value) "
    "values (1, 'state', 'Migrated') on duplicate key update value = values(value)",
    "insert /* gh-ost `{db}`.`ghosted` */ ignore into `{db}`.`_ghosted_gho` (`id`, `remark`, `n`) "
    "(select `id`, `note`, `n` from `{db}`.`ghosted` force index (`PRIMARY`) "
    "where (`id` >= 1 and `id` <= 2) lock in share mode)",
    "update ghosted set note = 'meanwhile' where id = 1",
    "replace /* gh-ost `{db}`.`_ghosted_gho` */ into `{db}`.`_ghosted_gho` (`id`, `remark`, `n`) "
    "values (1, 'meanwhile', 1)",
    "insert into ghosted values (3, 'late', 3)",
    "replace /* gh-ost `{db}`.`_ghosted_gho` */ into `{db}`.`_ghosted_gho` (`id`, `remark`, `n`) "
    "values (3, 'late', 3)",
    "create /* gh-ost */ table `{db}`.`_ghosted_del` (id int auto_increment primary key) "
    "engine=InnoDB comment='ghost-cut-over-sentry'",
    "drop /* gh-ost */ table if exists `{db}`.`_ghosted_del`",
    "rename /* gh-ost */ table `{db}`.`ghosted` to `{db}`.`_ghosted_del`, "
    "`{db}`.`_ghosted_gho` to `{db}`.`ghosted`",
    "drop /* gh-ost */ table if exists `{db}`.`_ghosted_ghc`",
)
_NEW, _OLD = "`{db}`.`_osc_new`", "`{db}`.`osc`"
PT_OSC = (
    f"CREATE TABLE {_NEW} (`id` int(11) NOT NULL, `note` varchar(20) DEFAULT NULL, "
    "`n` int(11) NOT NULL DEFAULT 0, PRIMARY KEY (`id`)) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4",
    f"ALTER TABLE {_NEW} {RENAMED}",
    f"CREATE TRIGGER `pt_osc_del` AFTER DELETE ON {_OLD} FOR EACH ROW "
    f"DELETE IGNORE FROM {_NEW} WHERE {_NEW}.`id` <=> OLD.`id`",
    f"CREATE TRIGGER `pt_osc_upd` AFTER UPDATE ON {_OLD} FOR EACH ROW BEGIN "
    f"DELETE IGNORE FROM {_NEW} WHERE !(OLD.`id` <=> NEW.`id`) AND {_NEW}.`id` <=> OLD.`id`; "
    f"REPLACE INTO {_NEW} (`id`, `remark`, `n`) VALUES (NEW.`id`, NEW.`note`, NEW.`n`); END",
    f"CREATE TRIGGER `pt_osc_ins` AFTER INSERT ON {_OLD} FOR EACH ROW "
    f"REPLACE INTO {_NEW} (`id`, `remark`, `n`) VALUES (NEW.`id`, NEW.`note`, NEW.`n`)",
    f"INSERT LOW_PRIORITY IGNORE INTO {_NEW} (`id`, `remark`, `n`) "
    f"SELECT `id`, `note`, `n` FROM {_OLD} LOCK IN SHARE MODE",
    "update osc set note = 'meanwhile' where id = 1",
    "insert into osc values (3, 'late', 3)",
    "delete from osc where id = 2",
    f"RENAME TABLE {_OLD} TO `{{db}}`.`_osc_old`, {_NEW} TO {_OLD}",
    "DROP TABLE IF EXISTS `{db}`.`_osc_old`",
)
AFTER = "insert into {table} (id, remark, n) values (4, 'with the new name', 4)"


@pytest.fixture
def source(testbed: Testbed) -> Iterator[MariaDbDatabase]:
    with testbed.mariadb_database(NAME) as database:
        for table in TABLES:
            database.execute(f"create table {table} ({COLUMNS})")
            database.execute(f"insert into {table} values (1, 'one', 1), (2, 'two', 2)")
        database.start_connector(testbed.connect, {"snapshot.mode": "initial"})
        database.wait_until_sent(testbed.connect)
        yield database


@pytest.mark.parametrize("runs", [2, 1])
def test_renames_are_followed_and_no_value_is_lost(
    runs: int,
    tmp_path: Path,
    testbed: Testbed,
    source: MariaDbDatabase,
    ingest_server: IngestServer,
    paimon_java: PaimonJava,
) -> None:
    """The job may see the tables before the renames, or begin behind all of them."""
    conf = write_conf(
        tmp_path / "job.toml",
        source={
            "bootstrap-servers": testbed.broker.bootstrap,
            "topic-pattern": rf"{NAME}(\..*)?",
        },
        sync={"warehouse": str(tmp_path / "warehouse"), "database": "ods",
              "options.bucket": 1},
        stream={"checkpoint": str(tmp_path / "checkpoint"), "trigger": "availableNow"},
        spark={"spark.master": "local[2]"},
    )  # fmt: skip
    if runs == 2:
        first = ingest_server.run(conf)
        assert first.code == 0, first.output
    for statement in (f"alter table plain {RENAMED}", *GH_OST, *PT_OSC):
        source.execute(statement.format(db=NAME))
    for table in TABLES:
        source.execute(AFTER.format(table=table))
    source.wait_until_sent(testbed.connect)
    last = ingest_server.run(conf)
    assert last.code == 0, last.output
    folder = tmp_path / "warehouse/ods.db"
    assert sorted(path.name for path in folder.iterdir()) == sorted((*TABLES, "done"))
    for table in TABLES:
        assert list(open_file_store_table(str(folder / table)).schema.fields.names) == [
            "id",
            "remark",
            "n",
        ]
        assert _rows(paimon_java.read(folder / table)) == _rows_of(source, table)
    for ghost in ("_ghosted_gho", "_ghosted_ghc", "_osc_new"):
        assert last.output.count(f"{NAME}.{ghost} is left out") <= 2  # in the log, and on the page
        assert f"{NAME}.{ghost} is left out" in last.output


def _rows(rows: Any) -> list[tuple[Any, ...]]:
    return sorted((row["id"], row["remark"], row["n"]) for row in rows)


def _rows_of(source: MariaDbDatabase, table: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in source.query(f"select id, remark, n from {table}"))
