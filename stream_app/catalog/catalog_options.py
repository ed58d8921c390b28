"""Declares the options of catalogs, with Paimon's names and defaults.

Source: Paimon `options/CatalogOptions.java`, `jdbc/JdbcCatalogOptions.java`,
`rest/RESTCatalogOptions.java`, `rest/RESTTokenFileIO.java`, `hive/HiveCatalogOptions.java`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from stream_app.errors import UsageError
from stream_app.model.near_names import unknown_name
from stream_app.model.options.core_options import option_problems
from stream_app.model.options.option import (
    BOOLEAN,
    CHOICE,
    DURATION,
    INTEGER,
    MINUTE,
    SECOND,
    TEXT,
    Option,
    declared_options,
)

METASTORE = Option(
    "metastore",
    CHOICE,
    "filesystem",
    "The kind of catalog.",
    only=("filesystem", "jdbc", "hive", "rest"),
)
WAREHOUSE = Option(
    "warehouse", TEXT, "",
    "The folder of all databases; for a REST catalog, the warehouse's name on the server.",
    example="./warehouse",
)  # fmt: skip
URI = Option("uri", TEXT, "", "The address of the catalog.")
LOCK_ENABLED = Option(
    "lock.enabled", BOOLEAN, None,
    "Whether each commit holds the catalog's lock. Default: on object stores only.",
)  # fmt: skip
LOCK_CHECK_MAX_SLEEP = Option(
    "lock-check-max-sleep", DURATION, 8 * SECOND, "The longest wait between two attempts to lock."
)
LOCK_ACQUIRE_TIMEOUT = Option(
    "lock-acquire-timeout", DURATION, 8 * MINUTE,
    "The longest wait for a lock, and the age at which others may break it.",
)  # fmt: skip
SYNC_ALL_PROPERTIES = Option(
    "sync-all-properties", BOOLEAN, True,
    "Whether the catalog has a copy of all options of a table.",
)  # fmt: skip
CLIENT_POOL_SIZE = Option(
    "client-pool-size", INTEGER, 2, "The maximum number of connections that stay open.", minimum=1
)
CATALOG_KEY = Option("catalog-key", TEXT, "jdbc", "The name of the catalog in its database.")
LOCK_KEY_MAX_LENGTH = Option(
    "lock-key-max-length", INTEGER, 255, "The longest name of a lock.", minimum=1
)
JDBC_USER = Option("jdbc.user", TEXT, "", "The user of the catalog's database.")
JDBC_PASSWORD = Option("jdbc.password", TEXT, "", "The password of that user.")
TOKEN_PROVIDER = Option(
    "token.provider", TEXT, "", "The kind of login at a REST catalog; stream_app supports ``bear``."
)
TOKEN = Option("token", TEXT, "", "The token of that login.")
PREFIX = Option(
    "prefix", TEXT, "", "A component of all paths of a REST catalog, which its server sets."
)
DATA_TOKEN_ENABLED = Option(
    "data-token.enabled", BOOLEAN, False,
    "Whether a REST catalog gives each table a login for its files.",
)  # fmt: skip
HIVE_METASTORE_URIS = Option(
    "hive.metastore.uris", TEXT, "", "The addresses of Hive metastores, if 'uri' has none."
)
HIVE_CONF_DIR = Option(
    "hive-conf-dir", TEXT, "",
    "The folder of hive-site.xml. Default: that of the variable HIVE_CONF_DIR.",
)  # fmt: skip
LOCATION_IN_PROPERTIES = Option(
    "location-in-properties", BOOLEAN, False,
    "Whether a Hive metastore has locations as parameters, so that it needs no access to them.",
)  # fmt: skip

OPTIONS = declared_options(globals())
SECRETS = frozenset({JDBC_PASSWORD.key, TOKEN.key})
"""The keys of options whose values no plan and no message may show."""
TABLE_DEFAULT_OPTION_PREFIX = "table-default."
"""The prefix of options that new tables get, if they lack them."""
HEADER_PREFIX = "header."
"""The prefix of headers that each request to a REST catalog has."""
_LOCK_OPTIONS = (
    *(LOCK_ENABLED, LOCK_CHECK_MAX_SLEEP, LOCK_ACQUIRE_TIMEOUT),
    *(SYNC_ALL_PROPERTIES, CLIENT_POOL_SIZE),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KindOptions:
    """The options of one kind of catalog, beside ``metastore`` and ``warehouse``.

    Attributes:
        has_headers: whether it accepts options ``header.…``.
        has_folder: whether ``warehouse`` is a folder; else it is a name on its server.
    """

    options: tuple[Option[Any], ...] = ()
    has_headers: bool = False
    has_folder: bool = True


OPTIONS_OF_KIND = {
    "filesystem": KindOptions(),
    "jdbc": KindOptions(
        options=(URI, *_LOCK_OPTIONS, CATALOG_KEY, LOCK_KEY_MAX_LENGTH, JDBC_USER, JDBC_PASSWORD)
    ),
    "hive": KindOptions(
        options=(URI, *_LOCK_OPTIONS, HIVE_METASTORE_URIS, HIVE_CONF_DIR, LOCATION_IN_PROPERTIES)
    ),
    "rest": KindOptions(
        options=(URI, TOKEN_PROVIDER, TOKEN, PREFIX, DATA_TOKEN_ENABLED),
        has_headers=True,
        has_folder=False,
    ),
}
"""Kind of catalog → its options; the kinds are those of `METASTORE`."""


def names_folder(options: Mapping[str, str]) -> bool:
    """Return whether ``warehouse`` is a folder."""
    kind = OPTIONS_OF_KIND.get(options.get(METASTORE.key, METASTORE.default).lower())
    return kind is None or kind.has_folder


def catalog_option_problems(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield (key, problem) for unknown options, options of other kinds, and wrong values."""
    name = options.get(METASTORE.key, METASTORE.default).lower()
    kind = OPTIONS_OF_KIND.get(name)
    for key in options:
        is_header = key.startswith(HEADER_PREFIX)
        if key.startswith(TABLE_DEFAULT_OPTION_PREFIX):
            table_options = {key.removeprefix(TABLE_DEFAULT_OPTION_PREFIX): options[key]}
            yield from ((key, problem) for problem in option_problems(table_options))
        elif key not in OPTIONS and not is_header:
            yield key, unknown_name("option", key, OPTIONS)
        elif kind is not None and not _accepts_option(kind, key):
            yield key, f"has no effect with metastore = {name}: remove it"
    for option in OPTIONS.values():
        try:
            option.read(options)
        except UsageError as error:
            yield option.key, f"{error.problem} ({error.fix})"


def _accepts_option(kind_options: KindOptions, key: str) -> bool:
    if key.startswith(HEADER_PREFIX):
        return kind_options.has_headers
    return key in {option.key for option in (METASTORE, WAREHOUSE, *kind_options.options)}


def check_catalog_options(options: Mapping[str, str], section: str) -> None:
    """Refuse options with `catalog_option_problems`.

    Args:
        section: the name of the options' section, for messages.

    Raises:
        UsageError: an option is wrong; the error lists all problems.
    """
    if problems := [f"{key}: {problem}" for key, problem in catalog_option_problems(options)]:
        raise UsageError(
            "; ".join(problems),
            where=section,
            fix=f"use {', '.join(OPTIONS)}, {HEADER_PREFIX}…, {TABLE_DEFAULT_OPTION_PREFIX}…",
        )


def table_defaults(options: Mapping[str, str]) -> dict[str, str]:
    """Return the table options that a catalog's options set.

    Source: Paimon `catalog/CatalogUtils.java` (tableDefaultOptions).
    """
    prefix = TABLE_DEFAULT_OPTION_PREFIX
    return {
        key.removeprefix(prefix): value for key, value in options.items() if key.startswith(prefix)
    }
