"""The paths of a table's files are those of Paimon."""

from __future__ import annotations

from stream_app.filestore.path_factory import FileStorePathFactory
from stream_app.model.files.data_file_meta import EMPTY_ROW
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import new_table_schema


def test_rows_without_a_bucket_yet_lie_where_paimon_has_them() -> None:
    schema = new_table_schema(
        columns=parse_columns("k INT"), primary_keys=("k",), partition_keys=(),
        options={}, time_ms=0,
    )  # fmt: skip
    paths = FileStorePathFactory.of_schema("/t", schema)
    assert paths.bucket_folder(EMPTY_ROW, -2) == "/t/bucket-postpone"
