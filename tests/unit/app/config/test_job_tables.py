"""A job of one table and a job of many give their tables through the same interface."""

from __future__ import annotations

from dataclasses import replace

from stream_app.app.config.job_tables.single_table import SingleTable
from stream_app.app.config.job_tables.whole_database import WholeDatabase
from stream_app.app.config.source_config import SourceConfig
from stream_app.app.config.sync_config import SyncConfig, TableSetting
from stream_app.app.config.table_config import TableConfig
from stream_app.model.source.origin import Origin
from stream_app.planning.sync.table_share import TableShare

SOURCE = SourceConfig(topics=("t",), merge_shards=False)
ONLY = SingleTable(
    source=SOURCE, table=TableConfig(warehouse="/w/", database="d", name="orders", filter="id > 1")
)
MANY = WholeDatabase(
    source=SOURCE,
    sync=SyncConfig(
        warehouse="/w", database="d", excluding_tables="tmp_.*", table_prefix="s_",
        case_sensitive=False, filter="id > 1", tables={"s_a.truncate": TableSetting("apply")},
    ),
)  # fmt: skip
ORDERS, SCRATCH = Origin("shop", "", "orders"), Origin("shop", "", "tmp_1")


def test_jobs_of_one_table_and_of_many_have_locations() -> None:
    assert (ONLY.name, ONLY.location) == ("d.orders", "/w/d.db/orders")
    assert (MANY.name, MANY.location) == ("d", "/w/d.db/")
    assert ONLY.paths([]) == {"d.orders": "/w/d.db/orders"}
    assert MANY.paths(["b", "a", "b"]) == {"a": "/w/d.db/a", "b": "/w/d.db/b"}


def test_a_source_table_has_its_target_table() -> None:
    assert [ONLY.target_path(ORDERS), ONLY.target_path(SCRATCH)] == ["/w/d.db/orders"] * 2
    assert [MANY.target_path(ORDERS), MANY.target_path(SCRATCH)] == ["/w/d.db/s_orders", None]


def test_a_table_has_a_full_name_and_a_quarantine_folder() -> None:
    assert ONLY.quarantine_of("/q", "d.orders") == "/q"
    assert [MANY.quarantine_of("/q", name) for name in ("s_a", "")] == ["/q/s_a", "/q"]
    assert [ONLY.full_name(""), ONLY.name_in_job("d.orders")] == ["d.orders", "d.orders"]
    assert [MANY.full_name("s_a"), MANY.full_name("")] == ["d.s_a", ""]
    assert [MANY.name_in_job("d.s_a"), MANY.name_in_job("other.s_a")] == ["s_a", None]


def test_source_options_may_differ_by_table() -> None:
    assert ONLY.source_of("orders") == SOURCE
    source = MANY.source_of("s_a")
    assert (source.merge_shards, source.lowers_names) == (True, True)
    assert source.format_options["truncate"] == "apply"
    assert "truncate" not in MANY.source_of("s_b").format_options


def test_a_key_is_spelled_as_in_the_configuration() -> None:
    assert [ONLY.full_key("inexact"), MANY.full_key("inexact"), MANY.full_key("truncate")] == [
        "source.debezium.inexact", "sync.inexact", "source.debezium.truncate",
    ]  # fmt: skip


def test_each_table_belongs_to_one_share_of_a_database() -> None:
    shares = [replace(MANY, share=TableShare(number, 3)) for number in (1, 2, 3)]
    assert [share.name for share in shares] == [f"d (share {number} of 3)" for number in (1, 2, 3)]
    origins = [Origin("shop", "", f"t{number}") for number in range(300)]
    takers_by_origin = [
        [share for share in shares if share.target_path(origin)] for origin in origins
    ]
    assert {len(takers) for takers in takers_by_origin} == {1}
    counts = [sum(share in takers for takers in takers_by_origin) for share in shares]
    assert min(counts) > 70, "a hash deals them out"
    assert [name for share in shares for name in share.named_tables] == ["s_a"]
