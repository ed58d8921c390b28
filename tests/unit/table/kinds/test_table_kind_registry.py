"""The registry finds the kind of a table."""

from __future__ import annotations

import pytest

from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import TableSchema
from stream_app.model.traits.kind_traits import (
    APPEND,
    BUCKETED_APPEND,
    CROSS_PARTITION_KEYED,
    DYNAMIC_KEYED,
    KEYED,
    KIND_TRAITS,
    PARTITION_LOOKUP_KEYED,
    POSTPONED_KEYED,
    KindTraits,
    is_writable,
)
from stream_app.table.kinds.append import APPEND_KIND, BUCKETED_APPEND_KIND
from stream_app.table.kinds.key_indexed import KEY_INDEXED_KIND
from stream_app.table.kinds.keyed import DYNAMIC_KEYED_KIND, KEYED_KIND
from stream_app.table.kinds.table_kind import TableKind
from stream_app.table.kinds.table_kind_registry import KINDS, table_kind_of


def schema(
    keys: tuple[str, ...], partition_keys: tuple[str, ...] = (), **options: str
) -> TableSchema:
    return TableSchema(
        schema_id=0,
        fields=parse_columns("id BIGINT NOT NULL, name STRING"),
        highest_field_id=1,
        partition_keys=partition_keys,
        primary_keys=keys,
        options=options,
    )


@pytest.mark.parametrize(
    ("keys", "bucket", "traits"),
    [
        (("id",), "4", KEYED),
        (("id",), "-1", DYNAMIC_KEYED),
        (("id",), "-2", POSTPONED_KEYED),
        ((), "4", BUCKETED_APPEND),
        ((), "-1", APPEND),
    ],
)
def test_keys_and_buckets_say_the_kind(
    keys: tuple[str, ...], bucket: str, traits: KindTraits
) -> None:
    assert schema(keys, bucket=bucket).kind_traits == traits


def test_without_the_option_bucket_there_is_no_fixed_number() -> None:
    assert schema(("id",)).kind_traits == DYNAMIC_KEYED
    assert schema(()).kind_traits == APPEND


def test_a_key_without_the_partition_crosses_partitions() -> None:
    key = ("id", "name")
    assert schema(key, ("name",), bucket="-1").kind_traits == DYNAMIC_KEYED
    assert schema(("id",), ("name",), bucket="-1").kind_traits == CROSS_PARTITION_KEYED


def test_partitions_are_looked_up_where_the_number_of_buckets_is_fixed() -> None:
    looked_up = {"partition-lookup": "true"}
    assert schema(("id",), (), bucket="4", **looked_up).kind_traits == PARTITION_LOOKUP_KEYED
    assert schema(("id",), (), bucket="-1", **looked_up).kind_traits == DYNAMIC_KEYED
    assert schema((), (), bucket="4", **looked_up).kind_traits == BUCKETED_APPEND


def test_keys_of_any_partition_are_placed_by_an_index() -> None:
    assert table_kind_of(schema(("id",), ("name",), bucket="-1")) is KEY_INDEXED_KIND
    options = {"bucket": "4", "partition-lookup": "true"}
    assert table_kind_of(schema(("id",), ("name",), **options)) is KEY_INDEXED_KIND


def test_every_kind_is_registered() -> None:
    assert set(KINDS) == set(KIND_TRAITS)


@pytest.mark.parametrize(
    ("keys", "bucket", "kind"),
    [
        (("id",), "1", KEYED_KIND),
        (("id",), "-1", DYNAMIC_KEYED_KIND),
        ((), "1", BUCKETED_APPEND_KIND),
        ((), "-1", APPEND_KIND),
    ],
)
def test_each_written_kind_has_its_own_parts(
    keys: tuple[str, ...], bucket: str, kind: TableKind
) -> None:
    assert table_kind_of(schema(keys, bucket=bucket)) is kind


@pytest.mark.parametrize("bucket", [0, -2, -3])
def test_a_number_that_is_none_is_not_written(bucket: int) -> None:
    assert not is_writable((), (), bucket)
    assert is_writable(("id",), (), bucket) is (bucket == -2)


def test_without_a_number_of_buckets_a_key_may_lack_the_partition() -> None:
    assert is_writable((), ("name",), -1)
    assert is_writable(("id", "name"), ("name",), -1)
    assert is_writable(("id",), ("name",), -1)


def test_kinds_differ_in_the_size_of_their_files() -> None:
    assert schema(("id",), bucket="1").target_file_size == 128 << 20
    assert schema(()).target_file_size == 256 << 20
    assert schema((), (), **{"target-file-size": "1 kb"}).target_file_size == 1024
