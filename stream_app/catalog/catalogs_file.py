"""Looks up catalogs in ``catalogs.toml``, for tables named ``CATALOG.DATABASE.TABLE``.

The file has a table for each catalog, ``[lake]``, with its options and those of its file system. It
is in the current folder, or at the path in the variable STREAM_APP_CATALOGS. Instead of a
secret, a value may be a reference to the environment or to a file: ``${env:NAME}``,
``${file:PATH}``.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from stream_app.catalog.catalog import Catalog
from stream_app.catalog.catalog_registry import open_catalog
from stream_app.catalog.identifier import Identifier
from stream_app.clock import Clock
from stream_app.errors import UsageError
from stream_app.fileio.setting_references import REFERENCE, MissingValueError, resolve_references
from stream_app.model.near_names import unknown_name

CATALOGS_VARIABLE = "STREAM_APP_CATALOGS"
CATALOGS_FILE = "catalogs.toml"
_NAME = r"[^/\\.\s]+"
_FULL_NAME = re.compile(rf"({_NAME})\.({_NAME})\.({_NAME})")


def split_table_name(text: str) -> tuple[str, Identifier] | None:
    """Split ``CATALOG.DATABASE.TABLE`` into catalog and table; None for other texts."""
    parts = _FULL_NAME.fullmatch(text)
    return None if parts is None else (parts[1], Identifier(parts[2], parts[3]))


def catalog_of_name(name: str, clock: Clock, environ: Mapping[str, str]) -> Catalog:
    """Return the catalog of this name.

    Raises:
        UsageError: the file is missing or wrong, or has no such catalog.
        StorageError, NoAccessError: as `open_catalog`.
    """
    path = Path(environ.get(CATALOGS_VARIABLE) or CATALOGS_FILE)
    try:
        catalogs = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"the catalog {name!r} is unknown, because the file of catalogs cannot be read: "
            f"{error.strerror}",
            where=str(path),
            fix=f"write {CATALOGS_FILE} with a table [{name}], or name a file in "
            f"{CATALOGS_VARIABLE}",
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(
            f"the file of catalogs is not TOML: {error}",
            where=str(path),
            fix='write strings in quotes; beside token, write the key "token.provider" in quotes',
        ) from None
    options = catalogs.get(name)
    if not isinstance(options, dict):
        raise UsageError(
            unknown_name("catalog", name, catalogs),
            where=str(path),
            fix=f"name one of {', '.join(catalogs)}" if catalogs else f"add a table [{name}]",
        )
    texts = {key: _resolve(key, value, str(path), environ) for key, value in _flatten(options, "")}
    return open_catalog(texts, clock, section=name)


def secret_by_reference(key: str, value: str, environ: Mapping[str, str]) -> str:
    """Return an option's value for a plan, in which a secret is the user's reference.

    Raises:
        UsageError: the option contains the secret itself, or its reference is broken.
    """
    if not REFERENCE.fullmatch(value):
        raise UsageError(
            f"option '{key}' is refused, because a plan would show it",
            fix="give ${file:PATH} or ${env:NAME}; or write the catalog into "
            f"{CATALOGS_FILE}, and read CATALOG.DATABASE.TABLE",
        )
    return _resolve(key, value, "the options of the source", environ)


def _flatten(options: Mapping[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    for key, value in options.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _resolve(key: str, value: object, where: str, environ: Mapping[str, str]) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    try:
        return resolve_references(text, environ)
    except MissingValueError as error:
        raise UsageError(
            f"{key}: {error}", where=where, fix="set the variable or create the file"
        ) from None
