"""Which tables we can read correctly.

Source: Paimon `CoreOptions.java`; its documentation describes what each option does to a read.
"""

from __future__ import annotations

from stream_app.errors import UnsupportedTableError
from stream_app.model.merge_engine import MERGE_ENGINES
from stream_app.model.options.core_options import REFUSED
from stream_app.model.schema.merge_problems import merge_problems
from stream_app.model.table_kind import BucketMode
from stream_app.table.file_store_table import FileStoreTable

_UNREADABLE = (
    "branch",
    "chain-table.enabled",
    "data-evolution.enabled",
    "pk-clustering-override",
    "type",
)


def check_readable(table: FileStoreTable, *, merges: bool) -> None:
    """Refuse a table whose rows we would read wrongly.

    Args:
        merges: the read merges versions of a key; else it reads changes as they are in files.

    Raises:
        UnsupportedTableError: names every obstacle.
    """
    options = table.schema.options
    present = [key for key in _UNREADABLE if key in options]
    reasons = [f"{key} = {options[key]}" for key in present if REFUSED[key](options[key])]
    engine = table.options.merge_engine
    if merges and table.kind.merges_by_key and engine not in MERGE_ENGINES:
        reasons.append(f"merge-engine = {engine}")
    elif merges and table.kind.merges_by_key:
        reasons += merge_problems(table.schema.fields, table.schema.primary_keys, options)
    if table.kind.bucket_mode is BucketMode.POSTPONE:
        reasons.append("bucket = -2")
    if reasons:
        raise UnsupportedTableError(
            "stream_app cannot read this table yet: " + ", ".join(reasons),
            where=table.location,
            fix="read it with Paimon's own readers",
        )
