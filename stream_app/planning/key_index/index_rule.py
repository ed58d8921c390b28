"""Decides which tables need a key index, and how a new row treats an older one.

A table whose key lacks partition columns has one row of a key in all partitions. So has a table
whose option ``partition-lookup`` declares the rest of its key unique.

Source: Paimon `crosspartition/ExistingProcessor.java`, `crosspartition/GlobalIndexAssigner.java`.
"""

from __future__ import annotations

from dataclasses import dataclass

from stream_app.model.options.bucket_options import (
    DYNAMIC_BUCKET_ASSIGNER_PARALLELISM,
    DYNAMIC_BUCKET_MAX_BUCKETS,
    bucket_count_max,
)
from stream_app.model.schema.table_schema import TableSchema
from stream_app.model.traits.kind_traits import CROSS_PARTITION_KEYED, PARTITION_LOOKUP_KEYED
from stream_app.model.traits.merge_engine import OlderRowRule, traits_of

DEFAULT_SHARE_COUNT = 4
"""The default number of key shares, enough for some hundred million keys.

They are also few enough for small partitions.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRule:
    """The index of one table.

    Attributes:
        keys: the columns by which a row is looked up.
        share_count: the number of key shares, into which the hash of a key divides the index.
        fills_buckets: whether a key share fills the buckets whose number modulo `share_count` is
            the share. Otherwise the table has fixed buckets, and a key share is a bucket.
        deletes_remove_rows: whether a delete removes the row. Otherwise it undoes values of the
            row, which stays.
    """

    keys: tuple[str, ...]
    share_count: int
    fills_buckets: bool
    older_row_rule: OlderRowRule
    deletes_remove_rows: bool

    def may_have_keys(self, share: int, bucket: int, *, follows_rule: bool, has_keys: bool) -> bool:
        """Return whether a new file of a bucket can have keys of a key share.

        Args:
            follows_rule: whether the file was written by this rule, which keeps a key in place, or
                puts it into a bucket of its share.
            has_keys: whether the bucket already had keys of the key share.
        """
        if self.fills_buckets and not follows_rule:
            return True
        return bucket % self.share_count == share or (self.fills_buckets and has_keys)


def index_rule(schema: TableSchema) -> IndexRule | None:
    """Return the index that writers of a table need; None if they need none."""
    make_rule = _RULES.get(schema.kind_traits)
    return None if make_rule is None else make_rule(schema)


def _rule_of_own_buckets(schema: TableSchema) -> IndexRule:
    options = schema.core_options
    share_count = options[DYNAMIC_BUCKET_ASSIGNER_PARALLELISM] or DEFAULT_SHARE_COUNT
    engine = traits_of(options.merge_engine)
    return IndexRule(
        keys=schema.primary_keys,
        # Each key share fills its own buckets.
        share_count=min(share_count, bucket_count_max(options[DYNAMIC_BUCKET_MAX_BUCKETS])),
        fills_buckets=True,
        older_row_rule=engine.older_row_rule,
        deletes_remove_rows=engine.keeps_newest or schema.merge_rules.removes_on_delete,
    )


def _rule_of_fixed_buckets(schema: TableSchema) -> IndexRule:
    return IndexRule(
        keys=schema.trimmed_primary_keys,
        share_count=schema.core_options.bucket,
        fills_buckets=False,
        older_row_rule=OlderRowRule.MOVES,
        deletes_remove_rows=True,
    )


_RULES = {
    CROSS_PARTITION_KEYED: _rule_of_own_buckets,
    PARTITION_LOOKUP_KEYED: _rule_of_fixed_buckets,
}
"""The makers of rules by the kind's traits; kinds without a key index are absent."""
