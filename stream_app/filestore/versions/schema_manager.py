"""Manages a table's schema files: ``schema/schema-<n>``.

Source: Paimon `schema/SchemaManager.java`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from stream_app.errors import StreamAppError
from stream_app.fileio.file_io import FileIO
from stream_app.filestore.versions.numbered_files import listed_ids
from stream_app.format.schema_json import decode_schema, encode_schema
from stream_app.model.schema.table_schema import TableSchema

_PREFIX = "schema-"


@dataclass(frozen=True, slots=True)
class SchemaManager:
    """The schemas of the table at `root`."""

    file_io: FileIO
    root: str

    def ids(self) -> list[int]:
        """Return the numbers of all schemas, ascending; empty without a table."""
        return listed_ids(self.file_io, f"{self.root}/schema", _PREFIX)

    def latest(self) -> TableSchema | None:
        """Return the latest schema; None without a table."""
        ids = self.ids()
        return self.schema(ids[-1]) if ids else None

    def schema(self, schema_id: int) -> TableSchema:
        """Return a schema by number.

        Raises:
            FileNotFoundError: the schema does not exist.
            CorruptFileError: the file is not a schema.
        """
        path = self.path(schema_id)
        data = self.file_io.read_bytes(path)
        try:
            return decode_schema(data)
        except StreamAppError as error:
            raise type(error)(error.problem, where=path, fix=error.fix) from error

    def fingerprint(self) -> str:
        """Return a digest of the first schema, which is unique because of its creation time."""
        try:
            data = self.file_io.read_bytes(self.path(0))
        except FileNotFoundError:
            data = self.file_io.read_bytes(self.path(self.ids()[0]))
        return hashlib.sha256(data).hexdigest()

    def create(self, schema: TableSchema) -> bool:
        """Write a schema; False if one of its number already exists."""
        return self.file_io.create_if_absent(self.path(schema.schema_id), encode_schema(schema))

    def path(self, schema_id: int) -> str:
        """Return the path of a schema's file."""
        return f"{self.root}/schema/{_PREFIX}{schema_id}"
