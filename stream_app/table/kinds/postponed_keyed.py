"""The parts of tables with a primary key whose rows get their buckets later (``bucket = -2``).

Source: Paimon `postpone/PostponeBucketFileStoreWrite.java`.
"""

from __future__ import annotations

from dataclasses import replace

from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.kinds.keyed import KEYED_KIND
from stream_app.table.versions.bucket_basis import BucketBasis
from stream_app.table.write.postponed_rows import (
    PostponedShareAssigner,
    PostponedWrite,
    postponed_writer,
)


def _postponed_write(
    table: FileStoreTable, next_sequence_number: int, basis: BucketBasis
) -> PostponedWrite:
    del basis
    return PostponedWrite(table, postponed_writer, next_sequence_number=next_sequence_number)


POSTPONED_KEYED_KIND = replace(
    KEYED_KIND,
    make_bucket_assigner=lambda table, _: PostponedShareAssigner(table.schema),
    make_bucket_writer=postponed_writer,
    make_table_write=_postponed_write,
)
