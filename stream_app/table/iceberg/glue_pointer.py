"""The pointer to Iceberg's metadata in AWS Glue: parameters of an external table.

Glue compares the table's version number when it moves the pointer. botocore, an extra, finds
region, endpoint and login as in any AWS program.

Source: Iceberg `aws/glue/GlueTableOperations.java`; PyIceberg `catalog/glue.py`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.session import Session

from stream_app.catalog.hive.hive_types import hive_type
from stream_app.errors import StorageError
from stream_app.filestore.iceberg_files import IcebergFiles
from stream_app.model.options.iceberg_options import METADATA_ICEBERG_GLUE_SKIP_ARCHIVE
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.iceberg.metadata_pointer import (
    LOCATION,
    PointedTable,
    PointedVersion,
    name_in_catalog,
)

_GONE, _EXISTS = "EntityNotFoundException", "AlreadyExistsException"
_CHANGED_ERROR = "ConcurrentModificationException"
_CARRIED_FIELDS = (
    "Description",
    "Owner",
    "Retention",
    "PartitionKeys",
    "Parameters",
    "StorageDescriptor",
)
"""The fields that an update repeats, because Glue empties those that an update omits."""
_CONNECT_TIMEOUT_S, _READ_TIMEOUT_S, _ATTEMPTS_MAX = 10, 15, 2
"""Limits of a request: botocore's defaults would hold a commit for minutes."""


@dataclass(frozen=True, slots=True)
class GluePointer:
    """One table of Glue; see `PointerStore`.

    Attributes:
        client: botocore's Glue client.
        skips_archive: whether Glue keeps no older versions of the entry.
    """

    client: Any
    database: str
    name: str
    skips_archive: bool

    def pointer(self) -> str | None:
        """See `PointerStore.pointer`."""
        table = self._table()
        return None if table is None else _pointer_of(table)

    def create(self, version: PointedVersion) -> bool:
        """Create the database if it is missing, then the table; False if Glue has the table."""
        with suppress(_NameTakenError), self._glue_errors():
            self.client.create_database(
                DatabaseInput={
                    "Name": self.database,
                    "LocationUri": version.home.rpartition("/")[0],
                }
            )
        try:
            with self._glue_errors():
                self.client.create_table(
                    DatabaseName=self.database, TableInput=self._table_input({}, None, version)
                )
        except _NameTakenError:
            return False
        return True

    def move(self, current_pointer: str, version: PointedVersion) -> bool:
        """Update the table; Glue refuses if its version has changed since this method read it."""
        table = self._table()
        if table is None or _pointer_of(table) != current_pointer:
            return False
        try:
            with self._glue_errors():
                self.client.update_table(
                    DatabaseName=self.database,
                    TableInput=self._table_input(table, current_pointer, version),
                    SkipArchive=self.skips_archive,
                    VersionId=table["VersionId"],
                )
        except _NameTakenError:
            return False
        return True

    def _table_input(
        self, table: Mapping[str, Any], current_pointer: str | None, version: PointedVersion
    ) -> dict[str, Any]:
        """Return Glue's `TableInput` for a version, with the fields that other writers have set."""
        carried_fields = {key: table[key] for key in _CARRIED_FIELDS if key in table}
        columns = [
            {
                "Name": field.name,
                # Glue has only one timestamp type.
                "Type": hive_type(field.data_type).replace(" with local time zone", ""),
                **({} if field.description is None else {"Comment": field.description}),
            }
            for field in version.schema.fields
        ]
        storage = {**carried_fields.get("StorageDescriptor", {}), "Location": version.home}
        return {
            **carried_fields,
            "Name": self.name,
            "TableType": "EXTERNAL_TABLE",
            "Parameters": {
                **carried_fields.get("Parameters", {}),
                **version.parameters(current_pointer),
            },
            "StorageDescriptor": {**storage, "Columns": columns},
        }

    def _table(self) -> Mapping[str, Any] | None:
        with suppress(_NoTableError), self._glue_errors():
            table: Mapping[str, Any] = self.client.get_table(
                DatabaseName=self.database, Name=self.name
            )["Table"]
            return table
        return None

    @contextmanager
    def _glue_errors(self) -> Iterator[None]:
        """Convert Glue's errors; those that a caller handles become private exceptions."""
        try:
            yield
        except (ClientError, BotoCoreError) as error:
            code = error.response["Error"]["Code"] if isinstance(error, ClientError) else ""
            if code == _GONE:
                raise _NoTableError from None
            if code in (_EXISTS, _CHANGED_ERROR):
                raise _NameTakenError from None
            raise StorageError(
                f"Glue refused or did not answer: {' '.join(str(error).split())}",
                where=f"{self.database}.{self.name}",
                fix="see that the driver has a region (AWS_REGION) and keys of AWS, and that these "
                "may read and change the table in Glue",
            ) from None


class _NoTableError(Exception):
    """The table or its database does not exist in Glue."""


class _NameTakenError(Exception):
    """Another writer has created or changed the entry in Glue first."""


def _pointer_of(table: Mapping[str, Any]) -> str:
    """Return the pointer of a Glue table; empty if it is not an Iceberg table."""
    parameters = table.get("Parameters", {})
    is_iceberg = parameters.get("table_type", "").upper() == "ICEBERG"
    return str(parameters.get(LOCATION, "")) if is_iceberg else ""


def open_catalog_table(table: FileStoreTable, iceberg_files: IcebergFiles) -> PointedTable:
    """Open the table in Glue with the driver's AWS settings.

    Raises:
        StorageError: the settings lack a region.
    """
    database, name = name_in_catalog(table)
    limits = Config(
        connect_timeout=_CONNECT_TIMEOUT_S,
        read_timeout=_READ_TIMEOUT_S,
        retries={"total_max_attempts": _ATTEMPTS_MAX},
    )
    try:
        client = Session().create_client(
            "glue", region_name=os.environ.get("AWS_REGION"), config=limits
        )
    except BotoCoreError as error:
        raise StorageError(
            f"Glue cannot be reached: {error}",
            where=table.location,
            fix="give the driver a region (AWS_REGION)",
        ) from None
    skips_archive = table.options[METADATA_ICEBERG_GLUE_SKIP_ARCHIVE]
    pointer = GluePointer(client, database, name, skips_archive)
    return PointedTable(table, iceberg_files, pointer, f"{database}.{name} of Glue")
