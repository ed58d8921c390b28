"""PostgreSQL's messages of each replica identity give the source's rows, or bad records.

The same statements for each of the tables of debezium_pg_identity.jsonl (primary key id, dt NOT
NULL): rows 1 and 2 in the snapshot; insert 3; update the amount of 1; update dt of 2; update 3 to
30; delete 1. `orders` has the default identity, `orders_full` FULL, `orders_index` USING INDEX of
(dt, id). Connectors: idp plain, ids with schemas, idf flattened with add.fields=op and deletes
rewritten, idu flattened as the transform comes, idk with message.key.columns = dt,id.
"""

from __future__ import annotations

from typing import Any

import pytest

from stream_app.cdc.change_batch import TableTraits
from stream_app.errors import SourceError
from tests.support.messages.debezium_messages import (
    a_format,
    captured_messages,
    reasons_of,
    rows_of,
)
from tests.support.messages.replica_identities import AT_THE_END, COLUMNS, FILE

MISMATCH = "which row it changes is not certain: the message's key (id) lacks dt of the primary key"


def table_of(
    topic: str, keys: tuple[str, ...], **options: str
) -> tuple[dict[Any, Any], dict[int, str]]:
    """The rows that a table of this key has after all messages, and the bad records."""
    decode = a_format(COLUMNS, keys, options={"unproven-keys": "quarantine", **options})
    decoded_batch = decode.decode(captured_messages(FILE, topic))
    rows: dict[tuple[object, ...], tuple[str, str, str]] = {}
    for _, kind, number, customer, amount, _, dt in rows_of(decoded_batch):
        key = (number,) if keys == ("id",) else (dt, number)
        rows.pop(key, None)
        if kind in ("+I", "+U"):
            rows[key] = (customer, str(amount), dt)
    rows_by_id = {key[-1]: row for key, row in rows.items()}
    assert len(rows_by_id) == len(rows), "an id is there twice"
    return rows_by_id, reasons_of(decoded_batch)


@pytest.mark.parametrize("topic", ["idp.shop.orders", "ids.shop.orders", "idf.shop.orders"])
@pytest.mark.parametrize("identity", ["auto", "default"])
def test_the_source_s_key_works_out_of_the_box(topic: str, identity: str) -> None:
    assert table_of(topic, ("id",), **{"replica-identity": identity}) == (AT_THE_END, {})


@pytest.mark.parametrize("topic", ["idp.shop.orders", "ids.shop.orders", "idf.shop.orders"])
@pytest.mark.parametrize("identity", ["auto", "default"])
def test_a_wider_primary_key_is_not_guessed(topic: str, identity: str) -> None:
    """There are two updates, of the amount and of dt, and two deletes, one for a changed key."""
    rows, reasons = table_of(topic, ("dt", "id"), **{"replica-identity": identity})
    assert list(reasons) == [3, 4, 5, 8]
    assert all(MISMATCH in reason for reason in reasons.values())
    assert rows[2] == ("Alan", "20.00", "2026-01-01"), "as it was"
    with pytest.raises(SourceError) as error:
        a_format(COLUMNS, ("dt", "id")).decode(captured_messages(FILE, topic))
    assert MISMATCH in error.value.problem
    assert error.value.where == f"topic {topic}, partition 0, offset 3"
    for remedy in ("REPLICA IDENTITY FULL", "make the source's key (id) the table's primary key"):
        assert remedy in error.value.fix
        assert remedy in reasons[3]


def test_replica_identity_full_makes_deletes_certain() -> None:
    assert table_of("idp.shop.orders_full", ("dt", "id"), **{"replica-identity": "full"}) == (
        AT_THE_END,
        {},
    )
    assert list(table_of("idp.shop.orders_full", ("dt", "id"))[1]) == [3, 4, 5, 8]


def test_updates_reveal_a_wrongly_configured_replica_identity_full() -> None:
    reasons = table_of("idp.shop.orders", ("dt", "id"), **{"replica-identity": "full"})[1]
    assert list(reasons) == [3, 4]
    assert "it has no before-image" in reasons[3]


def test_an_index_identity_is_recognised_by_source_key() -> None:
    """Before-images, also of updates, have the index's columns and invented ones."""
    topic = "idp.shop.orders_index"
    assert list(table_of(topic, ("dt", "id"))[1]) == [3, 4, 5, 8]
    assert table_of(topic, ("dt", "id"), **{"source-key": "dt, id"}) == (AT_THE_END, {})


def test_a_table_without_a_key_has_whole_before_images() -> None:
    """Flattened, its update has no before-image."""
    columns = "id BIGINT, dt STRING, v STRING"
    decoded_batch = a_format(columns, ("dt", "id")).decode(
        captured_messages(FILE, "idp.shop.keyless")
    )
    assert rows_of(decoded_batch)[3:] == [
        (3, "-U", 2, "2026-01-01", "b"),
        (3, "+U", 2, "2026-01-03", "b"),
        (4, "-D", 1, "2026-01-01", "a"),
    ]
    flat_decoder = a_format(columns, ("dt", "id"), options={"unproven-keys": "quarantine"})
    reasons = reasons_of(flat_decoder.decode(captured_messages(FILE, "idf.shop.keyless")))
    assert list(reasons) == [3]
    assert "the message has no key, and it has no before-image" in reasons[3]


def test_flattened_without_op() -> None:
    """Every message may be an update, so a key that lacks dt makes none of them certain."""
    rows, reasons = table_of("idu.shop.orders", ("id",))
    assert rows == AT_THE_END | {1: ("Ada", "11.75", "2026-01-01"), 3: rows[3]}, "deletes not seen"
    assert reasons == {}
    rows, reasons = table_of("idu.shop.orders", ("dt", "id"))
    assert rows == {}
    assert all("may be an update (it has no __op)" in reason for reason in reasons.values())


def test_a_delete_by_an_invented_sequence_field() -> None:
    """Such a delete would be older than the row, and the row would stay."""
    traits = TableTraits(sequence_fields=("updated_at",))
    for topic, options, bad_offsets in (
        ("idp.shop.orders", {}, [5, 8]),
        ("idp.shop.orders_full", {"replica-identity": "full"}, []),
    ):
        decode = a_format(
            COLUMNS, options={"unproven-keys": "quarantine", **options}, traits=traits
        )
        reasons = reasons_of(decode.decode(captured_messages(FILE, topic)))
        assert list(reasons) == bad_offsets
        assert all("lacks updated_at of sequence.field" in reason for reason in reasons.values())


def test_source_tables_are_known_by_their_names() -> None:
    for topic, name in (
        ("idp.shop.orders", "postgres.shop.orders"),
        ("ids.shop.orders", "postgres.shop.orders"),
        ("idf.shop.orders", "orders"),
        ("idu.shop.orders", ""),
    ):
        assert dict(a_format(COLUMNS).decode(captured_messages(FILE, topic)).tables) == {name: 0}
    shards = a_format(COLUMNS, traits=TableTraits(merges_shards=True))
    assert dict(shards.decode(captured_messages(FILE, "idp.shop.orders")).tables) == {}
