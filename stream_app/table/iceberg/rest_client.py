"""PyIceberg's client of an Iceberg REST catalog: its settings, its limits, and its errors.

`rest_publication` uses it, and decides what the catalog receives. Options
``metadata.iceberg.rest.…`` are PyIceberg's, including logins. They override the variables
``PYICEBERG_CATALOG__REST__…``, which keep secrets out of a table's schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from pydantic import ValidationError as InvalidAnswerError
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    ForbiddenError,
    OAuthError,
    RESTError,
    UnauthorizedError,
    ValidationError,
)
from pyiceberg.utils.config import Config
from requests import Session
from requests.exceptions import RequestException

from stream_app.errors import NoAccessError, StreamAppError, UnsupportedTableError
from stream_app.model.options.iceberg_options import (
    METADATA_ICEBERG_STORAGE,
    REST_CATALOG,
    REST_PREFIX,
)
from stream_app.version import install_command

_NAME = "rest"
"""PyIceberg's name of the catalog, as in ``PYICEBERG_CATALOG__REST__TOKEN``."""
_VARIABLE = "PYICEBERG_CATALOG__REST__"
_URI, _REGION = "uri", "rest.signing-region"
_TIMEOUT, _TIMEOUT_MS = "rest.client.socket-timeout-ms", 30_000
"""The limit of a request, by the name that Iceberg's Java client has for it."""
_ONE_TRY = {"rest.sigv4.max-retries": "0"}
"""The setting of one try for a signed request, as for others.

PyIceberg's ten tries would hold a commit ten times as long.
"""


class TimedRestCatalog(RestCatalog):  # type: ignore[misc]
    """PyIceberg's catalog with a time limit, so that no commit waits forever."""

    def __init__(self, name: str, **properties: str) -> None:
        super().__init__(name, **{**_ONE_TRY, **properties})

    def _config_headers(self, session: Session) -> None:
        # A new session sets its headers first, so the limit also applies to the login request.
        super()._config_headers(session)
        seconds = int(self.properties.get(_TIMEOUT, _TIMEOUT_MS)) / 1000
        limited_request: Any = partial(session.request, timeout=seconds)
        session.request = limited_request  # type: ignore[method-assign]

    def _init_sigv4(self, session: Session) -> None:
        super()._init_sigv4(session)
        signer: Any = session.get_adapter(self.uri)
        aws = signer._boto_session
        if aws.get_credentials() is None or not (self.properties.get(_REGION) or aws.region_name):
            raise NoAccessError(
                "requests to the Iceberg catalog cannot be signed: there are no keys of AWS, or "
                "no region",
                where=_without_login(self.uri),
                fix="give the driver keys of AWS (AWS_PROFILE, or AWS_ACCESS_KEY_ID and "
                f"AWS_SECRET_ACCESS_KEY), and set {REST_PREFIX}{_REGION}",
            )


def rest_settings(options: Mapping[str, str], location: str) -> dict[str, str]:
    """Return PyIceberg's settings from a table's options, which must include `uri`.

    Args:
        location: the location of the table, for messages.

    Raises:
        UnsupportedTableError: the address is missing.
    """
    settings = {
        key.removeprefix(REST_PREFIX): value
        for key, value in options.items()
        if key.startswith(REST_PREFIX)
    }
    if _URI not in settings:
        raise UnsupportedTableError(
            f"{METADATA_ICEBERG_STORAGE.key} = {REST_CATALOG} needs the catalog's address",
            where=location,
            fix=f"set {REST_PREFIX}{_URI}",
        )
    return settings


def open_rest_catalog(settings: Mapping[str, str]) -> Catalog:
    """Log in at a catalog.

    Raises:
        UnsupportedTableError: a library is not installed.
        NoAccessError: requests cannot be signed.
        Exception: an error that `rest_errors` explains.
    """
    # PyIceberg's own function passes settings of the environment only to its own classes.
    environment = Config().get_catalog_config(_NAME) or {}
    try:
        return TimedRestCatalog(_NAME, **{**environment, **settings})
    except ImportError as error:
        raise UnsupportedTableError(
            f"a library that talks to the Iceberg catalog is not installed ({error})",
            where=_without_login(settings[_URI]),
            fix=install_command("iceberg"),
        ) from error


@contextmanager
def rest_errors(table_name: str, settings: Mapping[str, str]) -> Iterator[None]:
    """Explain the errors with which a catalog refuses a request.

    Args:
        table_name: the table's name in the catalog, for messages.

    Raises:
        NoAccessError: the catalog refuses the login, or the login lacks a right.
        StreamAppError: the catalog refuses something else, or does not answer.
    """
    where = f"{table_name} of {_without_login(settings[_URI])}"
    try:
        yield
    except (UnauthorizedError, AuthorizationExpiredError, OAuthError) as error:
        raise NoAccessError(
            f"the Iceberg catalog refuses the login: {error}",
            where=where,
            fix=f"check {_VARIABLE}TOKEN or {_VARIABLE}CREDENTIAL of the driver's environment, or "
            f"{REST_PREFIX}token or {REST_PREFIX}credential, which win; a credential is sent to "
            f"{REST_PREFIX}oauth2-server-uri with {REST_PREFIX}scope",
        ) from error
    except ForbiddenError as error:
        raise NoAccessError(
            f"the Iceberg catalog does not permit the request: {error}",
            where=where,
            fix="give the login the rights to load, register and change this table, and to make "
            f"its namespace; with {REST_PREFIX}rest.sigv4-enabled check the keys of AWS, "
            f"{REST_PREFIX}{_REGION} and {REST_PREFIX}rest.signing-name",
        ) from error
    except InvalidAnswerError:  # the text contains the response, which may be a token
        raise StreamAppError(
            "the answer is not from an Iceberg REST catalog, or not from its login server",
            where=where,
            fix=f"correct {REST_PREFIX}{_URI} or {REST_PREFIX}oauth2-server-uri",
        ) from None
    except (RESTError, ValidationError, RequestException) as error:
        raise StreamAppError(
            f"the Iceberg catalog refuses the request: {type(error).__name__}: {error}",
            where=where,
            fix=f"see that {REST_PREFIX}{_URI} answers; check the other options {REST_PREFIX}…, "
            "and what the catalog permits",
        ) from error


def _without_login(uri: str) -> str:
    """Return an address without its user and password."""
    return re.sub(r"//[^/@]*@", "//", uri)
