"""What is wrong with a table whose keys find their rows in any partition, in words.

Source: Paimon `schema/SchemaValidation.java#validateSequenceField`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from stream_app.model.merge_engine import MERGE_ENGINES, Existing, traits_of
from stream_app.model.options.core_options import CoreOptions
from stream_app.model.options.cross_partition_options import PARTITION_LOOKUP
from stream_app.model.options.table_options import IGNORE_DELETE, ROWKIND_FIELD, SEQUENCE_FIELD


def index_problems(
    primary_keys: Collection[str], partition_keys: Collection[str], options: Mapping[str, str]
) -> Iterator[str]:
    """Why rows cannot be found in any partition as a table's keys and options say."""
    core = CoreOptions(options)
    crosses = bool(primary_keys) and not {*partition_keys} <= {*primary_keys}
    if core[PARTITION_LOOKUP]:
        yield from _lookup_problems(core, primary_keys, partition_keys, crosses=crosses)
    if not (crosses or core[PARTITION_LOOKUP]):
        return
    why = "a row that moves to another partition"
    if core[SEQUENCE_FIELD]:
        yield f"sequence.field cannot order the versions of {why}: leave it out"
    if traits_of(core.merge_engine).existing is not Existing.MOVES:
        return
    if core[IGNORE_DELETE]:
        yield f"{IGNORE_DELETE.key} keeps the older version of {why}: leave it out"
    if core[ROWKIND_FIELD]:
        yield f"rowkind.field overrides the delete of {why}: leave it out"


def _lookup_problems(
    core: CoreOptions,
    primary_keys: Collection[str],
    partition_keys: Collection[str],
    *,
    crosses: bool,
) -> Iterator[str]:
    key = PARTITION_LOOKUP.key
    if not primary_keys or not partition_keys:
        yield f"{key} finds keys in partitions: it needs primary-keys and partition-keys"
    elif crosses:
        yield f"{key} is for primary keys with all partition columns; this one needs no option"
    elif core.bucket < 1:
        yield (
            f"{key} needs a fixed number of buckets: give option 'bucket' ≥ 1, or leave the "
            "partition columns out of the primary key"
        )
    if traits_of(core.merge_engine).existing is not Existing.MOVES:
        moving = [
            name for name, traits in MERGE_ENGINES.items() if traits.existing is Existing.MOVES
        ]
        yield f"{key} moves rows to other partitions: merge-engine must be {' or '.join(moving)}"
