"""Connects to a REST catalog: logs in, and fetches the server's configuration.

The client's options override the server's defaults, and the server's overrides replace both.
stream_app ignores settings for which it has no option.

Source: Paimon `rest/RESTApi.java`, `rest/responses/ConfigResponse.java`,
`rest/auth/BearTokenAuthProvider.java`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote_plus, urlsplit

from stream_app.catalog.catalog_options import (
    HEADER_PREFIX,
    PREFIX,
    TOKEN,
    TOKEN_PROVIDER,
    URI,
    WAREHOUSE,
)
from stream_app.catalog.rest.rest_api import RestApi
from stream_app.clock import Clock
from stream_app.errors import UsageError

_BEARER = "bear"


def connect(options: Mapping[str, str], clock: Clock) -> tuple[RestApi, Mapping[str, str]]:
    """Return the catalog's API, and the options merged from server and client.

    Raises:
        UsageError: an option is wrong or missing.
        StorageError, NoAccessError: as `RestApi.get`.
    """
    login = _login(options)
    api = RestApi(
        uri=_address(URI.read(options)), clock=clock, headers={**_headers(options), **login}
    )
    # Paimon's client encodes the name twice, and servers expect that.
    response = api.get("config", query={"warehouse": quote_plus(WAREHOUSE.read(options))})
    if not response.is_success:
        raise UsageError(
            f"the catalog's server has no warehouse {WAREHOUSE.read(options)!r}",
            where=response.where,
            fix="check 'warehouse' and 'uri' of the catalog",
        )
    merged_options = merge_options(response.value, options)
    headers = {**_headers(options), **_headers(merged_options), **login}
    return replace(api, headers=headers, prefix=PREFIX.read(merged_options)), merged_options


def merge_options(config: Mapping[str, Any], options: Mapping[str, str]) -> dict[str, str]:
    """Merge the server's defaults, then the client's options, then the server's overrides."""
    merged_options: dict[str, str] = {}
    for layer in (config.get("defaults"), options, config.get("overrides")):
        if isinstance(layer, Mapping):
            merged_options |= {key: str(value) for key, value in layer.items() if value is not None}
    return merged_options


def _headers(options: Mapping[str, str]) -> dict[str, str]:
    headers = {
        key.removeprefix(HEADER_PREFIX): value
        for key, value in options.items()
        if key.startswith(HEADER_PREFIX)
    }
    for name, value in headers.items():
        if not (name.isascii() and name.isprintable() and _is_header_value(value)):
            raise UsageError(
                f"the header {name!r} has a value that cannot be sent",
                fix=f"set '{HEADER_PREFIX}{name}' to printable ASCII characters",
            )
    return headers


def _login(options: Mapping[str, str]) -> dict[str, str]:
    """Return the header with the login, by ``token.provider``."""
    provider = TOKEN_PROVIDER.read(options)
    token = TOKEN.read(options)
    if provider != _BEARER:
        problem = (
            f"is {provider!r}, which stream_app does not support" if provider else "is missing"
        )
        raise UsageError(
            f"the catalog's 'token.provider' {problem}",
            fix=f"set token.provider = {_BEARER}, and token",
        )
    if not (token and _is_header_value(token)):
        raise UsageError(
            "the catalog's token is missing, or has characters that cannot be sent",
            fix="set 'token' to the token from the catalog's administrator, without line breaks",
        )
    return {"Authorization": f"Bearer {token}"}


def _is_header_value(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _address(uri: str) -> str:
    """Return the address with its scheme, without a slash at the end."""
    address = uri.rstrip("/")
    if not address.startswith(("http://", "https://")):
        address = f"http://{address}"
    parts = urlsplit(address)
    if not parts.hostname or parts.username is not None or parts.query or parts.fragment:
        raise UsageError(
            "'uri' of the catalog is not an address of a server",
            fix="write uri = https://HOST:PORT, and give the login as 'token'",
        )
    return address
