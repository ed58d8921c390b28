"""Describes how the source tables differ whose records one table stores.

Pure. `database_tables` reports the differences when the tables of several shards share a target.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stream_app.model.first_texts import first_texts
from stream_app.model.source.source_table import SourceTable

_DIFFERENCES_MAX = 5


def shard_differences(shards: Mapping[str, SourceTable]) -> str:
    """Describe the differences between source tables; empty if they are alike.

    Args:
        shards: name of a source table → its description in messages.
    """
    differences = list(_differences(shards)) if shards else []
    return first_texts(differences, _DIFFERENCES_MAX, "; ")


def _differences(shards: Mapping[str, SourceTable]) -> Iterator[str]:
    first_name, *other_names = sorted(shards)
    for name in other_names:
        yield from _column_differences(first_name, shards[first_name], name, shards[name])
        keys = shards[first_name].primary_keys, shards[name].primary_keys
        if all(keys) and keys[0] != keys[1]:
            key_texts = " and ".join(", ".join(names) for names in keys)
            yield f"the keys of {first_name} and {name} are {key_texts}"


def _column_differences(
    first_name: str, first_source: SourceTable, second_name: str, second_source: SourceTable
) -> Iterator[str]:
    for column in second_source.columns:
        first_column = first_source.column(column.name)
        if first_column is None:
            yield f"{column.name!r} of {second_name} is not a column of {first_name}"
        elif first_column.is_typed and column.is_typed:
            types = first_column.data_type.as_nullable(), column.data_type.as_nullable()
            if types[0] != types[1]:
                yield (
                    f"{column.name!r} is {types[0]} in {first_name} and {types[1]} in {second_name}"
                )
    for column in first_source.columns:
        if second_source.column(column.name) is None:
            yield f"{column.name!r} of {first_name} is not a column of {second_name}"
