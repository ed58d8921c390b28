"""The pointer to Iceberg's metadata in a Hive metastore: parameters of an external table.

A pointer moves under the metastore's lock of the table, as in Iceberg's own clients. Metastores
before Hive 4 have no other compare-and-set.

Source: Paimon `iceberg/IcebergHiveMetadataCommitter.java`; Iceberg
`hive/HiveTableOperations.java`.
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Sequence
from dataclasses import dataclass

from stream_app.catalog.catalog_options import HIVE_CONF_DIR
from stream_app.catalog.hive.hive_lock import HiveLock
from stream_app.catalog.hive.hive_site import addresses, check_supported, timeout_ms, with_hive_site
from stream_app.catalog.hive.hive_table import (
    ColumnField,
    HiveLayout,
    SerdeField,
    StorageField,
    TableField,
    hive_column,
    new_database,
)
from stream_app.catalog.hive.metastore_client import MetastoreClient
from stream_app.catalog.hive.metastore_entries import (
    alter_table_entry,
    create_database_entry,
    create_table_entry,
    database_entry,
    table_entry,
)
from stream_app.catalog.hive.thrift_struct import (
    Struct,
    ThriftValue,
    i32,
    inner_struct,
    struct_list,
    text,
    text_map,
)
from stream_app.catalog.identifier import Identifier
from stream_app.errors import UnsupportedTableError
from stream_app.filestore.iceberg_files import IcebergFiles
from stream_app.model.options.iceberg_options import (
    METADATA_ICEBERG_GLUE_SKIP_ARCHIVE,
    METADATA_ICEBERG_HIVE_CONF_DIR,
    METADATA_ICEBERG_HIVE_SKIP_UPDATE_STATS,
    METADATA_ICEBERG_STORAGE,
    METADATA_ICEBERG_URI,
)
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.iceberg.metadata_pointer import (
    LOCATION,
    PointedTable,
    PointedVersion,
    name_in_catalog,
)

_URIS = "hive.metastore.uris"
_TIMEOUT = {"hive.metastore.client.socket.timeout": "30s"}
"""Hive's own default of ten minutes would hold a commit for so long."""
_LOCK_TIMEOUT_MS = 30_000
_LAYOUT = HiveLayout(has_location_in_properties=False, has_properties=False)
_STORAGE: dict[int, ThriftValue] = {
    StorageField.INPUT_FORMAT: text("org.apache.hadoop.mapred.FileInputFormat"),
    StorageField.OUTPUT_FORMAT: text("org.apache.hadoop.mapred.FileOutputFormat"),
    StorageField.SERDE: inner_struct(
        Struct({SerdeField.LIBRARY: text("org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe")})
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HivePointer:
    """One table of a metastore; see `PointerStore`.

    Attributes:
        skips_stats: whether the metastore does not count files.
        skips_archive: whether a Glue metastore keeps no older versions of the entry.
        now_s: the creation time of a new entry, in seconds since 1970.
    """

    client: MetastoreClient
    lock: HiveLock
    identifier: Identifier
    skips_stats: bool
    skips_archive: bool
    now_s: int

    def pointer(self) -> str | None:
        """See `PointerStore.pointer`."""
        table = table_entry(self.client, self.identifier)
        return None if table is None else _pointer_of(table)

    def create(self, version: PointedVersion) -> bool:
        """Create the database if it is missing, then an external table with the pointer."""
        name = self.identifier
        client = self.client
        if database_entry(client, name.database) is None:
            folder = version.home.rpartition("/")[0]
            create_database_entry(
                client, name.database, new_database(name.database, folder, _LAYOUT)
            )
        storage = {**_STORAGE, StorageField.LOCATION: text(version.home)}
        table = Struct(
            {
                TableField.NAME: text(name.table),
                TableField.DATABASE: text(name.database),
                TableField.OWNER: text(getpass.getuser()),
                TableField.CREATE_TIME: i32(self.now_s),
                TableField.STORAGE: inner_struct(Struct(storage)),
                TableField.PARTITION_KEYS: struct_list([]),
                TableField.PARAMETERS: text_map({"DO_NOT_UPDATE_STATS": str(self.skips_stats)}),
                TableField.TYPE: text("EXTERNAL_TABLE"),
            }
        )
        pointing_table = _with_columns(_with_pointer(table, None, version), _columns(version))
        return create_table_entry(client, name, pointing_table)

    def move(self, current_pointer: str, version: PointedVersion) -> bool:
        """Alter the table under the lock, at first without columns if their types change."""
        with self.lock.hold(self.identifier):
            table = table_entry(self.client, self.identifier)
            if table is None or _pointer_of(table) != current_pointer:
                return False
            columns = _columns(version)
            pointing_table = _with_pointer(table, current_pointer, version)
            if not _accepts_columns(
                columns, table.struct(TableField.STORAGE).structs(StorageField.COLUMNS)
            ):
                self._alter(pointing_table, ())
            self._alter(pointing_table, columns)
        return True

    def _alter(self, table: Struct, columns: Sequence[Struct]) -> None:
        context = {
            "DO_NOT_UPDATE_STATS": str(self.skips_stats).lower(),
            "skipAWSGlueArchive": str(self.skips_archive).lower(),
        }
        alter_table_entry(self.client, self.identifier, _with_columns(table, columns), context)


def _pointer_of(table: Struct) -> str:
    """Return the pointer of a metastore's table; empty if it is not an Iceberg table."""
    parameters = table.text_map(TableField.PARAMETERS)
    is_iceberg = parameters.get("table_type", "").upper() == "ICEBERG"
    return parameters.get(LOCATION, "") if is_iceberg else ""


def _with_pointer(table: Struct, current_pointer: str | None, version: PointedVersion) -> Struct:
    """Return a metastore table that points to a version."""
    parameters = {**table.text_map(TableField.PARAMETERS), **version.parameters(current_pointer)}
    return table.with_fields({TableField.PARAMETERS: text_map(parameters)})


def _columns(version: PointedVersion) -> list[Struct]:
    return [hive_column(field) for field in version.schema.fields]


def _with_columns(table: Struct, columns: Sequence[Struct]) -> Struct:
    storage = table.struct(TableField.STORAGE)
    changed_storage = storage.with_fields({StorageField.COLUMNS: struct_list(columns)})
    return table.with_fields({TableField.STORAGE: inner_struct(changed_storage)})


def _accepts_columns(columns: Sequence[Struct], current_columns: Sequence[Struct]) -> bool:
    """Return whether a metastore accepts the change of columns: it compares types by position."""
    return all(
        column.text(ColumnField.TYPE) == current_column.text(ColumnField.TYPE)
        for column, current_column in zip(columns, current_columns, strict=False)
    )


def open_catalog_table(table: FileStoreTable, iceberg_files: IcebergFiles) -> PointedTable:
    """Open the table in the metastore that the table's options name.

    Raises:
        UnsupportedTableError: the options name no metastore.
        UsageError: an address or ``hive-site.xml`` is wrong, or `thrift` is not installed.
    """
    options = table.options
    folder = METADATA_ICEBERG_HIVE_CONF_DIR
    catalog_options = {HIVE_CONF_DIR.key: options[folder]} if options[folder] else {}
    hive_options = with_hive_site(catalog_options, os.environ)
    check_supported(hive_options)
    uris = options[METADATA_ICEBERG_URI] or hive_options.get(_URIS, "")
    if not uris:
        raise UnsupportedTableError(
            f"{METADATA_ICEBERG_STORAGE.key} = {options[METADATA_ICEBERG_STORAGE]} needs the "
            "metastore's address",
            where=table.location,
            fix=f"set {METADATA_ICEBERG_URI.key} = thrift://HOST:PORT, or {folder.key}",
        )
    client = MetastoreClient(addresses(uris), 1, timeout_ms({**_TIMEOUT, **hive_options}))
    lock = HiveLock(
        client=client, clock=table.clock, max_sleep_ms=1000, timeout_ms=_LOCK_TIMEOUT_MS
    )
    database, name = name_in_catalog(table)
    pointer = HivePointer(
        client=client,
        lock=lock,
        identifier=Identifier(database, name),
        skips_stats=options[METADATA_ICEBERG_HIVE_SKIP_UPDATE_STATS],
        skips_archive=options[METADATA_ICEBERG_GLUE_SKIP_ARCHIVE],
        now_s=table.clock.now_ms() // 1000,
    )
    return PointedTable(table, iceberg_files, pointer, f"{database}.{name} of {client.label}")
