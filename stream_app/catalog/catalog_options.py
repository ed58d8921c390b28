"""Options of catalogs, with the names and defaults that Paimon's catalogs have.

Source: Paimon `options/CatalogOptions.java`, `jdbc/JdbcCatalogOptions.java`.
"""

from __future__ import annotations

from collections.abc import Mapping

from stream_app.errors import UsageError
from stream_app.model.near_names import unknown_name
from stream_app.model.options.option import (
    BOOLEAN,
    CHOICE,
    DURATION,
    INTEGER,
    MINUTE,
    SECOND,
    TEXT,
    Option,
    declared,
)

METASTORE = Option(
    "metastore", CHOICE, "filesystem", "The kind of catalog.", only=("filesystem", "jdbc")
)
WAREHOUSE = Option("warehouse", TEXT, "", "The folder of all databases.", example="./warehouse")
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
    "client-pool-size", INTEGER, 2, "The most connections that stay open.", minimum=1
)
CATALOG_KEY = Option("catalog-key", TEXT, "jdbc", "The name of the catalog in its database.")
LOCK_KEY_MAX_LENGTH = Option(
    "lock-key-max-length", INTEGER, 255, "The longest name of a lock.", minimum=1
)
JDBC_USER = Option("jdbc.user", TEXT, "", "The user of the catalog's database.")
JDBC_PASSWORD = Option("jdbc.password", TEXT, "", "The password of that user.")

OPTIONS = declared(globals())
SECRETS = frozenset({JDBC_PASSWORD.key})
"""Options whose values no plan and no message may show."""
TABLE_DEFAULT_OPTION_PREFIX = "table-default."
"""The prefix of options that new tables get, if they do not have them."""


def check_options(options: Mapping[str, str], section: str) -> None:
    """Refuse options that no catalog has, and wrong values.

    Args:
        section: the name of the options' section, for messages.

    Raises:
        UsageError: an option is unknown, or its text is no value of it.
    """
    for key in options:
        if key not in OPTIONS and not key.startswith(TABLE_DEFAULT_OPTION_PREFIX):
            raise UsageError(
                f"{section}: {unknown_name('option', key, OPTIONS)}",
                fix=f"known: {', '.join(OPTIONS)}, {TABLE_DEFAULT_OPTION_PREFIX}…",
            )
    for option in OPTIONS.values():
        option.read(options)
