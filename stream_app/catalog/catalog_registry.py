"""Makes a catalog by the name of its kind. A new kind needs a module and a line in `_KINDS`.

Source: Paimon `catalog/CatalogFactory.java`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from stream_app.catalog.catalog import Catalog
from stream_app.catalog.catalog_options import (
    CATALOG_KEY,
    CLIENT_POOL_SIZE,
    DATA_TOKEN_ENABLED,
    HIVE_METASTORE_URIS,
    JDBC_PASSWORD,
    JDBC_USER,
    LOCATION_IN_PROPERTIES,
    LOCK_ACQUIRE_TIMEOUT,
    LOCK_CHECK_MAX_SLEEP,
    LOCK_ENABLED,
    LOCK_KEY_MAX_LENGTH,
    METASTORE,
    SYNC_ALL_PROPERTIES,
    URI,
    WAREHOUSE,
    check_catalog_options,
    table_defaults,
)
from stream_app.catalog.file_system_catalog import FileSystemCatalog
from stream_app.catalog.hive.hive_catalog import HiveCatalog
from stream_app.catalog.hive.hive_lock import HiveLock
from stream_app.catalog.hive.hive_site import addresses, check_supported, timeout_ms, with_hive_site
from stream_app.catalog.hive.hive_table import HiveLayout
from stream_app.catalog.hive.metastore_client import MetastoreClient
from stream_app.catalog.jdbc.connection_pool import ConnectionPool
from stream_app.catalog.jdbc.jdbc_catalog import JdbcCatalog
from stream_app.catalog.jdbc.jdbc_lock import JdbcLock
from stream_app.catalog.rest.rest_catalog import RestCatalog
from stream_app.catalog.rest.rest_connection import connect
from stream_app.clock import Clock
from stream_app.errors import UsageError
from stream_app.fileio.store_registry import options_of_stores, store_of
from stream_app.network.jdbc import parse_jdbc_url


def open_catalog(options: Mapping[str, str], clock: Clock, *, section: str = "catalog") -> Catalog:
    """Open a catalog by its options.

    Args:
        options: the options of the catalog, and of the file system of its tables.
        section: the name of the options' section, for messages.

    Raises:
        UsageError: an option is unknown, wrong or missing.
        StorageError, NoAccessError: the catalog does not answer, or refuses this user.
    """
    file_io_options = options_of_stores(options)
    options = {key: value for key, value in options.items() if key not in file_io_options}
    check_catalog_options(options, section)
    if METASTORE.read(options) == "hive":
        options = with_hive_site(options, os.environ)
    if not WAREHOUSE.read(options):
        raise UsageError(
            "the catalog has no warehouse",
            where=section,
            fix="set 'warehouse': the folder of all databases, "
            "or the name by which a REST catalog knows the warehouse",
        )
    return _KINDS[METASTORE.read(options)](options, clock, file_io_options)


def _file_system(
    options: Mapping[str, str], _clock: Clock, file_io_options: Mapping[str, str]
) -> Catalog:
    return FileSystemCatalog(WAREHOUSE.read(options), file_io_options, table_defaults(options))


def _jdbc(options: Mapping[str, str], clock: Clock, file_io_options: Mapping[str, str]) -> Catalog:
    """Return the catalog of a database, and create its tables there if they are missing."""
    login = {"user": JDBC_USER.read(options), "password": JDBC_PASSWORD.read(options)}
    login = {key: value for key, value in login.items() if value}
    url = parse_jdbc_url(URI.read(options), URI.key, login=login)
    connection_pool = ConnectionPool(url, CLIENT_POOL_SIZE.read(options))
    lock = JdbcLock(
        connection_pool=connection_pool,
        catalog_key=CATALOG_KEY.read(options),
        clock=clock,
        max_sleep_ms=LOCK_CHECK_MAX_SLEEP.read(options),
        timeout_ms=LOCK_ACQUIRE_TIMEOUT.read(options),
    )
    catalog = JdbcCatalog(
        connection_pool=connection_pool,
        catalog_key=CATALOG_KEY.read(options),
        warehouse=WAREHOUSE.read(options),
        lock=lock if has_lock(options) else None,
        has_properties=SYNC_ALL_PROPERTIES.read(options),
        file_io_options=file_io_options,
        table_defaults=table_defaults(options),
    )
    catalog.create_tables(LOCK_KEY_MAX_LENGTH.read(options))
    return catalog


def _rest(options: Mapping[str, str], clock: Clock, file_io_options: Mapping[str, str]) -> Catalog:
    api, merged_options = connect({**options, **file_io_options}, clock)
    return RestCatalog(
        api=api,
        warehouse=WAREHOUSE.read(options),
        options=merged_options,
        file_io_options=options_of_stores(merged_options),
        has_data_tokens=DATA_TOKEN_ENABLED.read(merged_options),
    )


def _hive(options: Mapping[str, str], clock: Clock, file_io_options: Mapping[str, str]) -> Catalog:
    """Return the catalog of a Hive metastore, with a lock if the options ask for one."""
    check_supported(options)
    client = MetastoreClient(
        addresses(URI.read(options) or HIVE_METASTORE_URIS.read(options)),
        CLIENT_POOL_SIZE.read(options),
        timeout_ms(options),
    )
    lock = HiveLock(
        client=client,
        clock=clock,
        max_sleep_ms=LOCK_CHECK_MAX_SLEEP.read(options),
        timeout_ms=LOCK_ACQUIRE_TIMEOUT.read(options),
    )
    layout = HiveLayout(
        has_location_in_properties=LOCATION_IN_PROPERTIES.read(options),
        has_properties=SYNC_ALL_PROPERTIES.read(options),
    )
    return HiveCatalog(
        client=client,
        warehouse=WAREHOUSE.read(options),
        lock=lock if has_lock(options) else None,
        layout=layout,
        clock=clock,
        file_io_options=file_io_options,
        table_defaults=table_defaults(options),
    )


def has_lock(options: Mapping[str, str]) -> bool:
    """Return whether commits hold the catalog's lock, by default on object stores, as in Paimon."""
    choice = LOCK_ENABLED.read(options)
    if choice is not None:
        return choice
    store = store_of(WAREHOUSE.read(options))
    return store is not None and store.needs_lock


_KINDS: Mapping[str, Callable[[Mapping[str, str], Clock, Mapping[str, str]], Catalog]] = {
    "filesystem": _file_system,
    "jdbc": _jdbc,
    "hive": _hive,
    "rest": _rest,
}
