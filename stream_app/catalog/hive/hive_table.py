"""Describes Paimon's tables, databases and partitions as the metastore stores them.

Pure. It converts schemas to structs of `hive_metastore.thrift`. A changed table keeps other
programs' fields and parameters.

Source: Paimon `hive/HiveCatalog.java`, `hive/StorageLocationHelper.java`,
`hive/TBPropertiesLocationHelper.java`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from stream_app.catalog.catalog_environment import CatalogPartition, properties_of
from stream_app.catalog.hive.hive_types import hive_type
from stream_app.catalog.hive.thrift_struct import (
    Struct,
    ThriftValue,
    i32,
    inner_struct,
    struct_list,
    text,
    text_list,
    text_map,
)
from stream_app.catalog.identifier import Identifier
from stream_app.model.options.expire_options import PARTITION_EXPIRATION_TIME
from stream_app.model.options.file_options import DATA_FILE_PATH_DIRECTORY
from stream_app.model.options.write_options import METASTORE_PARTITIONED_TABLE
from stream_app.model.schema.data_type import DataField
from stream_app.model.schema.table_schema import TableSchema

_INPUT_FORMAT = "org.apache.paimon.hive.mapred.PaimonInputFormat"
_OUTPUT_FORMAT = "org.apache.paimon.hive.mapred.PaimonOutputFormat"
_SERDE = "org.apache.paimon.hive.PaimonSerDe"
_STORAGE_HANDLER = "org.apache.paimon.hive.PaimonStorageHandler"
COMMENT = "comment"
"""The parameter that has a table's comment."""
_TYPE_PARAMETERS = {"table_type": "PAIMON", "storage_handler": _STORAGE_HANDLER}
_LOCATION_KEY = "paimon_location"
_HIVE_PREFIX = "hive."
_RETENTION = 2**31 - 1
"""The table's retention, the largest value, as in Paimon: the metastore itself deletes nothing."""


class TableField(IntEnum):
    """Fields of ``Table``."""

    NAME = 1
    DATABASE = 2
    OWNER = 3
    CREATE_TIME = 4
    LAST_ACCESS_TIME = 5
    RETENTION = 6
    STORAGE = 7
    PARTITION_KEYS = 8
    PARAMETERS = 9
    TYPE = 12


class ColumnField(IntEnum):
    """Fields of ``FieldSchema``."""

    NAME = 1
    TYPE = 2
    COMMENT = 3


class StorageField(IntEnum):
    """Fields of ``StorageDescriptor``."""

    COLUMNS = 1
    LOCATION = 2
    INPUT_FORMAT = 3
    OUTPUT_FORMAT = 4
    SERDE = 7


class SerdeField(IntEnum):
    """Fields of ``SerDeInfo``."""

    LIBRARY = 2
    PARAMETERS = 3


class PartitionField(IntEnum):
    """Fields of ``Partition``."""

    VALUES = 1
    DATABASE = 2
    TABLE = 3
    CREATE_TIME = 4
    LAST_ACCESS_TIME = 5
    STORAGE = 6
    PARAMETERS = 7


class DatabaseField(IntEnum):
    """Fields of ``Database``."""

    NAME = 1
    LOCATION = 3
    PARAMETERS = 4


@dataclass(frozen=True, slots=True)
class TableCreation:
    """The user and the time of a table's creation."""

    owner: str
    time_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HiveLayout:
    """The shape of the metastore's entries for Paimon's tables.

    Attributes:
        has_location_in_properties: whether locations are parameters, so that the metastore needs no
            access to the store.
        has_properties: whether parameters have a copy of all options.
    """

    has_location_in_properties: bool
    has_properties: bool

    def location(self, parameters: Mapping[str, str], descriptor_location: str) -> str:
        """Return the location of a table or a database; empty without one."""
        parameter = parameters.get(_LOCATION_KEY, "") if self.has_location_in_properties else ""
        return parameter or descriptor_location


def is_paimon_table(table: Struct) -> bool:
    """Return whether a table of the metastore is Paimon's."""
    storage = table.struct(TableField.STORAGE)
    formats = (StorageField.INPUT_FORMAT, StorageField.OUTPUT_FORMAT)
    return [storage.text(field_id) for field_id in formats] == [_INPUT_FORMAT, _OUTPUT_FORMAT]


def hive_table_location(table: Struct, layout: HiveLayout) -> str:
    """Return the folder of a table."""
    descriptor_location = table.struct(TableField.STORAGE).text(StorageField.LOCATION)
    return layout.location(table.text_map(TableField.PARAMETERS), descriptor_location)


def database_location(database: Struct, layout: HiveLayout) -> str:
    """Return the folder of a database; empty without one."""
    location = database.text(DatabaseField.LOCATION)
    return layout.location(database.text_map(DatabaseField.PARAMETERS), location)


def new_database(name: str, location: str, layout: HiveLayout) -> Struct:
    """Return a database whose tables are in a folder."""
    database = Struct({DatabaseField.NAME: text(name)})
    if layout.has_location_in_properties:
        parameters = text_map({_LOCATION_KEY: location})
        return database.with_fields({DatabaseField.PARAMETERS: parameters})
    return database.with_fields(
        {DatabaseField.LOCATION: text(location), DatabaseField.PARAMETERS: text_map({})}
    )


def new_table_entry(
    identifier: Identifier,
    schema: TableSchema,
    location: str,
    layout: HiveLayout,
    creation: TableCreation,
) -> Struct:
    """Return the entry of a new Paimon table."""
    options = schema.options
    keys = (PARTITION_EXPIRATION_TIME.key, DATA_FILE_PATH_DIRECTORY.key)
    parameters = (
        {} if layout.has_properties else {key: options[key] for key in keys if key in options}
    )
    table = Struct(
        {
            TableField.NAME: text(identifier.table),
            TableField.DATABASE: text(identifier.database),
            TableField.OWNER: text(creation.owner),
            TableField.CREATE_TIME: i32(creation.time_s),
            TableField.LAST_ACCESS_TIME: i32(creation.time_s),
            TableField.RETENTION: i32(_RETENTION),
            TableField.PARTITION_KEYS: struct_list([]),
            TableField.PARAMETERS: text_map(parameters),
            TableField.TYPE: text("MANAGED_TABLE"),
        }
    )
    table = follow_schema(table, schema, layout, ())
    return _with_location(table, location, layout)


def follow_schema(
    table: Struct, schema: TableSchema, layout: HiveLayout, unset_keys: Collection[str]
) -> Struct:
    """Return the entry of an existing table, changed to follow a schema.

    Args:
        unset_keys: the keys of options that the schema does not have any more.
    """
    storage = table.struct(TableField.STORAGE)
    serde = storage.struct(StorageField.SERDE).with_fields(
        {SerdeField.LIBRARY: text(_SERDE), SerdeField.PARAMETERS: text_map({})}
    )
    keys = schema.partition_keys if schema.core_options[METASTORE_PARTITIONED_TABLE] else ()
    columns = [column for column in schema.fields if column.name not in keys]
    fields: dict[int, ThriftValue] = {
        TableField.STORAGE: inner_struct(
            storage.with_fields(
                {
                    StorageField.COLUMNS: struct_list(map(hive_column, columns)),
                    StorageField.INPUT_FORMAT: text(_INPUT_FORMAT),
                    StorageField.OUTPUT_FORMAT: text(_OUTPUT_FORMAT),
                    StorageField.SERDE: inner_struct(serde),
                }
            )
        ),
        TableField.PARAMETERS: text_map(_parameters(table, schema, layout, unset_keys)),
    }
    if keys:
        partition_keys = struct_list(hive_column(schema.fields.field(key)) for key in keys)
        fields[TableField.PARTITION_KEYS] = partition_keys
    return table.with_fields(fields)


def new_partitions(
    table: Struct, partitions: Sequence[CatalogPartition], layout: HiveLayout, time_s: int
) -> list[Struct]:
    """Return the entries of a table's new partitions."""
    folder = hive_table_location(table, layout)
    return [
        _partition(table, partition, f"{folder}/{partition.folder}", layout, time_s)
        for partition in partitions
    ]


def _partition(
    table: Struct, partition: CatalogPartition, location: str, layout: HiveLayout, time_s: int
) -> Struct:
    """Return Thrift's struct of a partition, with the table's storage and the given location."""
    storage = table.struct(TableField.STORAGE)
    parameters: dict[str, str] = {}
    if layout.has_location_in_properties:
        parameters[_LOCATION_KEY] = location
    else:
        storage = storage.with_fields({StorageField.LOCATION: text(location)})
    return Struct(
        {
            PartitionField.VALUES: text_list(partition.values),
            PartitionField.DATABASE: text(table.text(TableField.DATABASE)),
            PartitionField.TABLE: text(table.text(TableField.NAME)),
            PartitionField.CREATE_TIME: i32(time_s),
            PartitionField.LAST_ACCESS_TIME: i32(time_s),
            PartitionField.STORAGE: inner_struct(storage),
            PartitionField.PARAMETERS: text_map(parameters),
        }
    )


def _parameters(
    table: Struct, schema: TableSchema, layout: HiveLayout, unset_keys: Collection[str]
) -> dict[str, str]:
    options = schema.options
    if layout.has_properties:
        copied_options = properties_of(schema)
    else:
        copied_options = {
            key: value for key, value in options.items() if key.startswith(_HIVE_PREFIX)
        }
    comment = {} if schema.comment is None else {COMMENT: schema.comment}
    parameters = {
        **table.text_map(TableField.PARAMETERS),
        **copied_options,
        **comment,
        **_TYPE_PARAMETERS,
    }
    return {key: value for key, value in parameters.items() if key not in unset_keys}


def _with_location(table: Struct, location: str, layout: HiveLayout) -> Struct:
    if layout.has_location_in_properties:
        parameters = {**table.text_map(TableField.PARAMETERS), _LOCATION_KEY: location}
        return table.with_fields({TableField.PARAMETERS: text_map(parameters)})
    storage = table.struct(TableField.STORAGE).with_fields({StorageField.LOCATION: text(location)})
    return table.with_fields({TableField.STORAGE: inner_struct(storage)})


def hive_column(field: DataField) -> Struct:
    """Return a column's entry."""
    type_name = text(hive_type(field.data_type))
    column = Struct({ColumnField.NAME: text(field.name), ColumnField.TYPE: type_name})
    if field.description is None:
        return column
    return column.with_fields({ColumnField.COMMENT: text(field.description)})
