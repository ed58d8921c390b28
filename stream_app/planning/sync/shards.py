"""How source tables differ whose rows go into one table: in columns, types and keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stream_app.model.schema.source_table import SourceTable

_TOLD_MAX = 5


def shard_differences(shards: Mapping[str, SourceTable]) -> str:
    """What differs between source tables, in words; empty: nothing.

    Args:
        shards: name of a source table → what its messages tell.
    """
    differences = list(_differences(shards)) if shards else []
    more = f"; and {len(differences) - _TOLD_MAX} more" if len(differences) > _TOLD_MAX else ""
    return "; ".join(differences[:_TOLD_MAX]) + more


def _differences(shards: Mapping[str, SourceTable]) -> Iterator[str]:
    first, *others = sorted(shards)
    for name in others:
        yield from _of_columns(first, shards[first], name, shards[name])
        keys = shards[first].primary_keys, shards[name].primary_keys
        if all(keys) and keys[0] != keys[1]:
            key_texts = " and ".join(", ".join(names) for names in keys)
            yield f"the keys of {first} and {name} are {key_texts}"


def _of_columns(first: str, one: SourceTable, second: str, another: SourceTable) -> Iterator[str]:
    for column in another.columns:
        other = one.column(column.name)
        if other is None:
            yield f"{column.name!r} of {second} is no column of {first}"
        elif other.is_typed and column.is_typed:
            kinds = other.data_type.as_nullable(), column.data_type.as_nullable()
            if kinds[0] != kinds[1]:
                yield f"{column.name!r} is {kinds[0]} in {first} and {kinds[1]} in {second}"
    for column in one.columns:
        if another.column(column.name) is None:
            yield f"{column.name!r} of {first} is no column of {second}"
