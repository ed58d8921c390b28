"""The survey learns the source's tables and settings from a few messages before the job begins."""

from __future__ import annotations

import pytest

from stream_app.cdc.change_batch import TableTraits
from stream_app.cdc.debezium.source_survey import seen_records
from stream_app.cdc.message_format import FormatSetup, Notice
from stream_app.format.arrow_schema import arrow_schema
from stream_app.message_format_registry import format_named
from stream_app.model.schema.data_type import parse_columns
from tests.support.messages.debezium_messages import captured_messages, messages
from tests.support.messages.replica_identities import FILE

COLUMNS = parse_columns("id BIGINT, customer STRING, amount STRING, updated_at STRING, dt STRING")


def notices(
    topic: str,
    *keys: str,
    rows: slice = slice(None),
    identity: str = "auto",
    source_key: str | None = None,
    changelog: bool = False,
    sequence: tuple[str, ...] = (),
) -> list[Notice]:
    batch = captured_messages(FILE, topic)
    batch = batch.slice(rows.start or 0, (rows.stop or batch.num_rows) - (rows.start or 0))
    keys_given = {} if source_key is None else {"source-key": source_key}
    setup = FormatSetup(
        columns=COLUMNS,
        arrow_schema=arrow_schema(COLUMNS),
        primary_keys=keys,
        options={"replica-identity": identity, **keys_given},
        keeps_update_before=changelog,
        traits=TableTraits(sequence_fields=sequence),
    )
    return list(format_named("debezium-json").survey(setup, {topic: batch}).notices())


@pytest.mark.parametrize("topic", ["idp.shop.orders", "ids.shop.orders", "idf.shop.orders"])
def test_a_source_as_it_comes_with_its_own_key_is_fine(topic: str) -> None:
    assert notices(topic, "id") == []
    assert notices(topic, "id", identity="default") == []


@pytest.mark.parametrize("topic", ["idp.shop.orders", "ids.shop.orders", "idf.shop.orders"])
def test_an_update_of_a_wider_key_is_reported_with_its_place(topic: str) -> None:
    (notice,) = notices(topic, "dt", "id")
    assert notice.stops_job
    assert notice.where == f"topic {topic}, partition 0, offset 3"
    assert "the message's key (id) lacks dt of the primary key" in notice.problem
    assert "REPLICA IDENTITY FULL" in notice.fix
    assert "make the source's key (id) the table's primary key" in notice.fix


def test_a_snapshot_alone_shows_that_deletes_will_be_uncertain() -> None:
    (notice,) = notices("idp.shop.orders", "dt", "id", rows=slice(0, 2))
    assert not notice.stops_job
    assert notice.problem.startswith("the row of a delete or an update will not be certain: ")
    assert notices("idp.shop.orders", "dt", "id", rows=slice(0, 2), identity="full") == []


def test_a_source_that_keeps_its_promises_gives_no_notice() -> None:
    assert notices("idp.shop.orders_full", "dt", "id", identity="full", changelog=True) == []
    assert notices("idp.shop.orders_index", "dt", "id", source_key="dt,id") == []
    assert notices("idp.shop.keyless", "dt", "id") == []


def test_a_sequence_field_needs_whole_before_images() -> None:
    (notice,) = notices("idp.shop.orders", "id", sequence=("updated_at",))
    assert notice.where.endswith("offset 5")
    assert "lacks updated_at of sequence.field" in notice.problem


def test_a_changelog_of_the_input_lacks_old_rows() -> None:
    (notice,) = notices("idp.shop.orders", "id", changelog=True)
    assert "so the changelog of changelog-producer = input lacks them, and those" in notice.problem
    assert "set changelog-producer = lookup, which takes old rows" in notice.fix
    (notice,) = notices("idp.shop.orders", "id", identity="default", changelog=True)
    assert notice.problem.endswith("changelog-producer = input lacks them")


def test_a_key_wider_than_the_primary_key() -> None:
    (notice,) = notices("idk.shop.orders", "id")
    assert "differ in dt alone are one row of the table" in notice.problem


def test_keys_that_the_connector_makes_of_invented_values() -> None:
    """message.key.columns = dt,id: the key holds the primary key, and dt of a delete is ""."""
    (notice,) = notices("idk.shop.orders", "dt", "id")
    assert notice.where.endswith("offset 5")
    assert "'dt' is empty in the key of a delete: with message.key.columns" in notice.problem
    assert notices("idk.shop.orders", "dt", "id", identity="full", rows=slice(0, 3)) == []


def test_flattened_messages_without_op() -> None:
    (notice,) = notices("idu.shop.orders", "id")
    assert "a delete is only a tombstone, which is skipped" in notice.problem
    assert "add.fields=op" in notice.fix


def test_no_primary_key_and_messages_of_other_kinds() -> None:
    assert notices("idp.shop.orders") == []
    odd = messages("no json", "5", None, '{"ts_ms":1}', '{"schema":1,"payload":' + "[" * 5000)
    assert seen_records(odd, frozenset(COLUMNS.names), frozenset({"id"})) == []
