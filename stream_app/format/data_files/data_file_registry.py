"""Lists the formats of data files by name, which is also the file's suffix."""

from __future__ import annotations

from collections.abc import Mapping

from stream_app.format.data_files.avro_file_format import AvroFileFormat
from stream_app.format.data_files.blob_file_format import BlobFileFormat
from stream_app.format.data_files.data_file_format import DataFileFormat
from stream_app.format.data_files.orc_file_format import OrcFileFormat
from stream_app.format.data_files.parquet_file_format import ParquetFileFormat

DATA_FILE_FORMATS: Mapping[str, DataFileFormat] = {
    "parquet": ParquetFileFormat(),
    "orc": OrcFileFormat(),
    "avro": AvroFileFormat(),
    "blob": BlobFileFormat(),
}


def format_of_file(file_name: str) -> DataFileFormat | None:
    """Return the format of a data file; None for an unknown suffix."""
    return DATA_FILE_FORMATS.get(file_name.rpartition(".")[2])
