"""A job accepts the configuration that `init` writes by messages."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

from stream_app.app.config.app_config import load_config
from stream_app.app.ops.written_configuration import JobDraft, configuration_text
from stream_app.message_format_registry import format_named
from stream_app.model.schema.data_type import STRING, parse_data_type
from stream_app.model.source.mapping_options import NO_MAPPING_OPTIONS
from stream_app.model.source.source_table import SourceColumn, SourceTable
from tests.support.jobs.table_section import table_section
from tests.support.messages.debezium_messages import captured_messages

TABLE = SourceTable(
    columns=(
        SourceColumn(name="id", data_type=parse_data_type("BIGINT NOT NULL"), comment="the\nkey"),
        SourceColumn(name="a b", data_type=parse_data_type("DECIMAL(12,2)")),
        SourceColumn(name='"é', data_type=STRING),
    ),
    primary_keys=("id",),
)
DRAFT = JobDraft(
    described_by="the messages of the topic shop.public.orders",
    topic="shop.public.orders",
    bootstrap_servers="127.0.0.1:9092",
    format="debezium-json",
    format_section="debezium",
    warehouse="./warehouse",
    database="shop",
    name="orders",
    table=TABLE,
    settings={"kafka.security.protocol": "PLAINTEXT", "debezium.truncate": "ignore"},
)


def test_a_job_reads_what_is_written(tmp_path: Path) -> None:
    conf = tmp_path / "orders.toml"
    conf.write_text(configuration_text(DRAFT), encoding="utf-8")
    config = load_config(conf, (), {})
    assert [f"{column.name} {column.data_type}" for column in table_section(config).columns] == [
        "id BIGINT NOT NULL",
        "a b DECIMAL(12, 2)",
        '"é STRING',
    ]
    assert table_section(config).primary_keys == ("id",)
    assert table_section(config).options["bucket"] == "-1"
    # Right for every source: PostgreSQL's default sends no whole old rows.
    assert table_section(config).options["changelog-producer"] == "lookup"
    assert config.source.topics == ("shop.public.orders",)
    assert config.source.format_options == {"truncate": "ignore"}
    assert "# id: the key" in conf.read_text(encoding="utf-8")


def test_captured_messages_give_a_configuration(tmp_path: Path) -> None:
    """Without a key there are neither buckets nor a changelog; plain JSON has no types."""
    describe = format_named("debezium-json").make_source_extractor({}).describe
    for number, (file, topic, has_types) in enumerate(
        [
            ("debezium_pg_schema", "pgs.shop.no_key", True),
            ("debezium_pg_schema", "pgs.shop.all_types", True),
            ("debezium_mariadb_plain", "mdb.shop.customers", False),
        ]
    ):
        table = describe(captured_messages(file, topic), NO_MAPPING_OPTIONS)
        assert table is not None
        text = configuration_text(replace(DRAFT, table=table, topic=topic))
        assert ("The messages have no types" in text) is not has_types
        assert ("options" in tomllib.loads(text)["table"]) is bool(table.primary_keys)
        conf = tmp_path / f"{number}.toml"
        conf.write_text(text, encoding="utf-8")
        assert table_section(load_config(conf, (), {})).primary_keys == table.primary_keys
