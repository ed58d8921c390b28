"""Opens and creates tables, and refuses those that a job must not write.

Source: Paimon `table/FileStoreTableFactory.java`, `schema/SchemaManager.java`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from stream_app.catalog.catalog import Catalog, CatalogTable
from stream_app.catalog.catalog_environment import NO_CATALOG
from stream_app.catalog.catalog_registry import open_catalog
from stream_app.catalog.catalogs_file import catalog_of_name, split_table_name
from stream_app.catalog.identifier import Identifier
from stream_app.clock import Clock, SystemClock
from stream_app.errors import (
    SchemaMismatchError,
    TableNotFoundError,
    UnsupportedTableError,
    UsageError,
)
from stream_app.fileio.file_io import FileIO
from stream_app.fileio.store import OptionSource
from stream_app.fileio.store_registry import file_io_of
from stream_app.filestore.versions.branch_folders import BRANCH_MARK, branch_path, table_and_branch
from stream_app.filestore.versions.schema_manager import SchemaManager
from stream_app.format.avro.avro_records import check_known
from stream_app.mergetree.merge_engines.merge_engine_registry import merge_function_of
from stream_app.model.options.core_options import check_writable
from stream_app.model.options.write_options import CATALOG
from stream_app.model.schema.table_schema import TableSchema, existing_problems
from stream_app.model.schema.type_widening import keeps_values
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.storage_errors import storage_errors


def open_file_store_table(
    location: str,
    clock: Clock | None = None,
    *,
    file_io_options: Mapping[str, str] | None = None,
    option_source: OptionSource | None = None,
) -> FileStoreTable:
    """Open the Paimon table, or one of its branches, in the folder at a path or URI.

    Args:
        file_io_options: the options of the file system, such as ``s3.endpoint``.
        option_source: supplies new options when the earlier ones expire; None if they stay valid.

    Raises:
        TableNotFoundError: the table does not exist.
        UsageError: the location names an unknown file system, or an option is wrong.
        StorageError: the file system cannot be reached, or refuses access.
    """
    path, file_io = file_io_of(branch_path(location), file_io_options, option_source)
    return open_in_file_system(path, file_io, clock)


def open_in_file_system(path: str, file_io: FileIO, clock: Clock | None = None) -> FileStoreTable:
    """Open the table, or the branch, in the folder at a path of a file system.

    Raises:
        TableNotFoundError, StorageError: as `open_file_store_table`.
    """
    with storage_errors(path):
        root, branch = table_and_branch(file_io, path)
        try:
            schema = SchemaManager(file_io, path).latest()
        except NotADirectoryError:
            raise _no_table_error("a part of the path is a file, not a folder", path) from None
    if schema is None and branch:
        raise _no_branch_error(root, branch)
    if schema is None:
        has_folder = file_io.exists(path)
        raise _no_table_error(
            "the folder has no schema" if has_folder else "there is no folder", path
        )
    return FileStoreTable(root, schema, file_io, clock or SystemClock(), branch)


def open_in_catalog(
    catalog: Catalog, identifier: Identifier, clock: Clock | None = None
) -> FileStoreTable:
    """Open a table of a catalog, which then publishes the table's snapshots and schemas.

    Raises:
        TableNotFoundError: the catalog has no such table.
        UsageError, StorageError: as `open_file_store_table`.
    """
    name, mark, branch = identifier.table.partition(BRANCH_MARK)
    catalog_table = catalog.table(replace(identifier, table=name))
    if catalog_table is not None and mark:
        catalog_table = replace(catalog_table, location=f"{catalog_table.location}{mark}{branch}")
    if catalog_table is None:
        raise TableNotFoundError(
            f"the catalog has no table {identifier}",
            where=catalog.label,
            fix="see its tables by the catalog's own tools, or let a job create it",
        )
    return _open_catalog_table(catalog_table, clock)


def open_named_table(
    name: str,
    clock: Clock | None = None,
    *,
    catalog: Mapping[str, str] | None = None,
    file_io_options: Mapping[str, str] | None = None,
) -> FileStoreTable:
    """Open a table by its path, or by its name in a catalog.

    Args:
        name: a path or URI; or ``CATALOG.DATABASE.TABLE`` with a catalog of the file of catalogs;
            or ``DATABASE.TABLE`` of `catalog`.
        catalog: options of the catalog.

    Raises:
        TableNotFoundError, UsageError, StorageError: as `open_in_catalog`.
    """
    clock = clock or SystemClock()
    if catalog is not None:
        database, _, table = name.partition(".")
        if not (database and table):
            raise UsageError(f"{name!r} is not a name in a catalog", fix="write DATABASE.TABLE")
        options = {**(file_io_options or {}), **catalog}
        return open_in_catalog(open_catalog(options, clock), Identifier(database, table), clock)
    if (parts := split_table_name(name)) and not Path(name).exists():
        return open_in_catalog(catalog_of_name(parts[0], clock, os.environ), parts[1], clock)
    return open_file_store_table(name, clock, file_io_options=file_io_options)


def _open_catalog_table(catalog_table: CatalogTable, clock: Clock | None) -> FileStoreTable:
    table = open_file_store_table(
        catalog_table.location,
        clock,
        file_io_options=catalog_table.file_io_options,
        option_source=catalog_table.option_source,
    )
    return replace(table, catalog_environment=catalog_table.catalog_environment)


def open_branch(table: FileStoreTable, name: str) -> FileStoreTable | None:
    """Open a branch of a table, which shares its data folders; None if it has no schema.

    Raises:
        CorruptFileError: the branch's schema cannot be read.
    """
    branch = replace(table, branch=name)
    schema = branch.schemas.latest()
    return None if schema is None else replace(branch, schema=schema)


def _no_branch_error(root: str, branch: str) -> TableNotFoundError:
    return TableNotFoundError(
        f"the table has no branch {branch!r}",
        where=root,
        fix=f"create it: stream-app branch create {root} {branch}",
    )


def _no_table_error(problem: str, path: str) -> TableNotFoundError:
    return TableNotFoundError(
        f"no Paimon table: {problem}",
        where=path,
        fix="give the table's folder, such as ./warehouse/shop.db/orders",
    )


def require_alterable(table: FileStoreTable) -> FileStoreTable:
    """Check that stream_app can write this table's schema, and return the table.

    Its options may contradict each other.

    Raises:
        UnsupportedTableError: the table uses a feature that this writer would corrupt.
        StorageError: the file system cannot publish snapshots safely.
    """
    with storage_errors(table.location):
        table.file_io.check_atomic_create(table.location)
    schema = table.schema
    _check_owner(table)
    check_known(schema.unknown_fields, table.location)
    if table.branch and table.catalog_environment.snapshot_loader is not None:
        raise UnsupportedTableError(
            f"the table is branch {table.branch!r} of a REST catalog, whose server publishes it",
            where=table.version_root,
            fix="write it with Paimon's own engines",
        )
    check_writable(schema.options, schema.primary_keys, schema.partition_keys, table.location)
    return table


def _check_owner(table: FileStoreTable) -> None:
    owner = table.options[CATALOG]
    if owner and table.catalog_environment is NO_CATALOG:
        raise UnsupportedTableError(
            f"the table belongs to the catalog {owner}, through which all its writers commit",
            where=table.location,
            fix="name the catalog in [catalog], or give CATALOG.DATABASE.TABLE in place of a path",
        )


def require_writable(table: FileStoreTable) -> FileStoreTable:
    """Check that stream_app can write this table, whichever engine created it, and return it.

    Raises:
        UnsupportedTableError: as `require_alterable`, or its options contradict each other.
        StorageError: as `require_alterable`.
    """
    _check_options(require_alterable(table))
    return table


def with_configuration(table: FileStoreTable, options: Mapping[str, str]) -> FileStoreTable:
    """Return a table of `require_alterable` with a configuration's options, after a check of both.

    Raises:
        SchemaMismatchError: an option that only the table may set has another value there.
        UnsupportedTableError: options contradict each other.
    """
    table = table.with_options(options)
    _check_options(table)
    return table


def _check_options(table: FileStoreTable) -> None:
    schema = table.schema
    problems = existing_problems(
        schema.fields, schema.primary_keys, schema.partition_keys, schema.options
    )
    if problems:
        raise UnsupportedTableError(
            "; ".join(problems),
            where=table.location,
            fix=f"fix the options, in the configuration or by stream-app alter {table.location} "
            "--set OPTION=VALUE, or --unset OPTION",
        )
    merge_function_of(schema)


def create_or_open(
    location: str,
    wanted_schema: TableSchema,
    clock: Clock | None = None,
    *,
    file_io_options: Mapping[str, str] | None = None,
) -> FileStoreTable:
    """Create the table if it does not exist; else open it and check that `wanted_schema` fits it.

    Raises:
        UsageError, StorageError: as `open_file_store_table` and `require_alterable`.
        SchemaMismatchError: columns, keys or fixed options differ.
        UnsupportedTableError: stream_app cannot write the table.
    """
    catalog_table = CatalogTable(
        location=location, catalog_environment=NO_CATALOG, file_io_options=file_io_options or {}
    )
    _check_new(wanted_schema)
    path, file_io = file_io_of(branch_path(location), file_io_options)
    schemas = SchemaManager(file_io, path)
    with _creation_errors(path):
        root, branch = table_and_branch(file_io, path)
        if branch and schemas.latest() is None:
            raise _no_branch_error(root, branch)
        if schemas.latest() is None:
            file_io.check_atomic_create(path)
            if schemas.create(wanted_schema):
                return _open_catalog_table(catalog_table, clock).with_options(wanted_schema.options)
    return _check_and_configure(_open_catalog_table(catalog_table, clock), wanted_schema)


def create_or_open_in_catalog(
    catalog: Catalog, identifier: Identifier, wanted_schema: TableSchema, clock: Clock | None = None
) -> FileStoreTable:
    """Create or open a table of a catalog; a new table is registered in the catalog."""
    _check_new(wanted_schema)
    if BRANCH_MARK in identifier.table:  # a catalog does not create branches
        return _check_and_configure(open_in_catalog(catalog, identifier, clock), wanted_schema)
    with suppress(TableNotFoundError):
        return _check_and_configure(open_in_catalog(catalog, identifier, clock), wanted_schema)
    owner = {CATALOG.key: catalog.owner} if catalog.owner else {}
    schema = replace(
        wanted_schema, options={**catalog.table_defaults, **wanted_schema.options, **owner}
    )
    _check_new(schema)
    with _creation_errors(f"{identifier} in {catalog.label}"):
        catalog.create_table(identifier, schema)
    return _check_and_configure(open_in_catalog(catalog, identifier, clock), wanted_schema)


def _check_new(wanted_schema: TableSchema) -> None:
    check_writable(wanted_schema.options, wanted_schema.primary_keys, wanted_schema.partition_keys)
    merge_function_of(wanted_schema)


def _check_and_configure(table: FileStoreTable, wanted_schema: TableSchema) -> FileStoreTable:
    """Return the table with the options of `wanted_schema`, if its schema fits."""
    table = require_alterable(table)
    check_fits(table, wanted_schema)
    return with_configuration(table, wanted_schema.options)


@contextmanager
def _creation_errors(path: str) -> Iterator[None]:
    with storage_errors(path):
        try:
            yield
        except (NotADirectoryError, FileExistsError):
            raise UsageError(
                "no table can be made: a part of the path is a file, not a folder",
                where=path,
                fix="give another warehouse, or another name of the database or the table",
            ) from None


def check_fits(table: FileStoreTable, wanted_schema: TableSchema) -> None:
    """Check that a table can take rows of the columns of `wanted_schema`.

    Raises:
        SchemaMismatchError: the table cannot take these rows.
    """
    if problems := fit_problems(table.schema, wanted_schema):
        raise SchemaMismatchError(
            "the configured table does not fit the one that is there: " + "; ".join(problems),
            where=table.location,
            fix="correct keys and options in the configuration, or give another table name",
        )


def fit_problems(table_schema: TableSchema, wanted_schema: TableSchema) -> list[str]:
    """Return why a table cannot take rows of the columns of `wanted_schema`; empty if it can.

    The order of columns may differ. The table may have wider types, and further nullable columns.
    """
    problems = []
    names = table_schema.fields.names
    for column in wanted_schema.fields:
        if column.name not in names:
            problems.append(f"the table has no column {column.name!r}")
            continue
        table_type = table_schema.fields.field(column.name).data_type
        if not keeps_values(column.data_type, table_type):
            problems.append(
                f"column {column.name!r} is {table_type} in the table, {column.data_type} is "
                "configured"
            )
    problems += [
        f"the table's column {column.name!r} is NOT NULL and is not configured"
        for column in table_schema.fields
        if column.name not in wanted_schema.fields.names and not column.data_type.nullable
    ]
    for key_kind, stored_keys, configured_keys in (
        ("primary", table_schema.primary_keys, wanted_schema.primary_keys),
        ("partition", table_schema.partition_keys, wanted_schema.partition_keys),
    ):
        if stored_keys != configured_keys:
            problems.append(
                f"the {key_kind} keys are ({', '.join(stored_keys)}) in the table, "
                f"({', '.join(configured_keys)}) are configured"
            )
    return problems
