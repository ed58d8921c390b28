"""Sends requests to a REST catalog, and converts responses to JSON or errors.

Like Paimon's client, it repeats a request if the server is busy (429, 503). It also repeats a
request that changes nothing if the connection breaks before the response. All other failures are
errors at once, because only the caller knows whether it may send a change twice.

Source: Paimon `rest/RESTApi.java`, `rest/ResourcePaths.java`, `rest/HttpClient.java`,
`rest/DefaultErrorHandler.java`, `rest/ExponentialHttpRequestRetryStrategy.java`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException, IncompleteRead
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote_plus, urlencode
from urllib.request import Request

import orjson

from stream_app.catalog.identifier import Identifier
from stream_app.clock import Clock
from stream_app.errors import (
    NoAccessError,
    StorageError,
    StreamAppError,
    UnsupportedTableError,
    UsageError,
)
from stream_app.network.http_request import LongResponseError, response_body

_TIMEOUT_S = 60.0
_RESPONSE_BYTES_MAX = 64 << 20
_REASON_BYTES_MAX = 1 << 16
_SHOWN_LENGTH_MAX = 500
"""The characters of a server's explanation that an error shows."""
_RETRIES_MAX = 5
_WAIT_MAX_S = 64
_BUSY = (429, 503)
_SUCCESS = range(200, 300)
MISSING_STATUS, EXISTS_STATUS = 404, 409
"""Statuses that callers handle: a requested object is missing, or one to create exists."""
_REFUSALS: dict[int, tuple[type[StreamAppError], str, str]] = {
    400: (
        UsageError,
        "rejects the request as invalid",
        "correct the column, the option, or the name of a database or table in the explanation",
    ),
    401: (
        NoAccessError,
        "refuses the login",
        "check 'token' of the catalog, or ask its administrator for another token",
    ),
    403: (
        NoAccessError,
        "does not permit this user to do that",
        "let the catalog's administrator grant the right",
    ),
    501: (
        UnsupportedTableError,
        "does not implement this",
        "ask the catalog's administrator for a server that implements Paimon's REST API",
    ),
}
"""HTTP status → the class of the error, the end of the problem's sentence, and the fix."""


@dataclass(frozen=True, slots=True)
class RestResponse:
    """The JSON object of a response; empty if the server sends no body.

    Attributes:
        status: the status: 2xx, `MISSING_STATUS` or `EXISTS_STATUS`.
        where: the request, for messages.
    """

    status: int
    value: Mapping[str, Any]
    where: str

    @property
    def is_success(self) -> bool:
        """Whether the server has executed the request."""
        return self.status in _SUCCESS

    def is_missing(self, resource: str) -> bool:
        """Return whether the server lacks an object of this type, such as ``SNAPSHOT``."""
        return self.status == MISSING_STATUS and self.value.get("resourceType") == resource

    def field(self, name: str, value_type: type[Any]) -> Any:
        """Return a value of the response by its name.

        Raises:
            StorageError: the value is absent, or of another type.
        """
        value = self.value.get(name)
        if not isinstance(value, value_type):
            raise StorageError(
                f"the catalog's response has no {value_type.__name__} {name!r}",
                where=self.where,
                fix="check that 'uri' is the address of a Paimon REST catalog",
            )
        return value


def table_path(identifier: Identifier, *resource: str) -> tuple[str, ...]:
    """Return the path of a table, or of one of its resources, such as ``commit``."""
    return ("databases", identifier.database, "tables", identifier.table, *resource)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestApi:
    """A client of one catalog; can be pickled, with its login.

    Attributes:
        uri: the address of the server, without a slash at the end.
        headers: the headers of all requests, with the login.
        prefix: a component of all paths from the server's configuration; often empty.
    """

    uri: str
    clock: Clock
    headers: Mapping[str, str] = field(repr=False)
    prefix: str = ""

    def get(self, *path: str, query: Mapping[str, str] | None = None) -> RestResponse:
        """Send a GET request.

        Raises:
            NoAccessError: the server refuses the login, or this user.
            StorageError: the server does not answer, or is not a catalog.
            UsageError: the server says that the request is wrong.
            UnsupportedTableError: the server does not implement the request.
        """
        return self._response(Request(self._url(path, query), headers=dict(self.headers)))

    def post(self, *path: str, body: Mapping[str, object]) -> RestResponse:
        """Send a POST request, which the server may have executed even after a StorageError.

        Raises:
            NoAccessError, StorageError, UsageError, UnsupportedTableError: as `get`.
        """
        headers = {**self.headers, "Content-Type": "application/json"}
        return self._response(Request(self._url(path), orjson.dumps(body), headers, method="POST"))

    def names(self, *path: str) -> list[str]:
        """Return all names of a paged list, ascending; empty if the list does not exist."""
        names: list[str] = []
        query: dict[str, str] = {}
        while True:
            response = self.get(*path, query=query)
            if not response.is_success:
                return []
            page = [] if response.value.get(path[-1]) is None else response.field(path[-1], list)
            names += map(str, page)
            token = response.value.get("nextPageToken")
            if not (token and page):
                return sorted(names)
            query = {"pageToken": str(token)}

    def _url(self, path: tuple[str, ...], query: Mapping[str, str] | None = None) -> str:
        components = (self.prefix, *path) if self.prefix else path
        url = "/".join((self.uri, "v1", *map(quote_plus, components)))
        return f"{url}?{urlencode(query)}" if query else url

    def _response(self, request: Request) -> RestResponse:
        status, body = self._send(request)
        where = f"{request.get_method()} {request.full_url}"
        if status not in (*_SUCCESS, MISSING_STATUS, EXISTS_STATUS):
            raise _refusal_error(status, body, where)
        try:
            value = orjson.loads(body) if body.strip() else {}
        except orjson.JSONDecodeError:
            value = None if status in _SUCCESS else {}
        if not isinstance(value, dict):
            raise StorageError(
                "the catalog's response is not a JSON object",
                where=where,
                fix="check that 'uri' is the address of a Paimon REST catalog",
            )
        return RestResponse(status, value, where)

    def _send(self, request: Request) -> tuple[int, bytes]:
        """Return status and body of the response, after retries while the server is busy."""
        for retry in range(_RETRIES_MAX):
            wait_s = 2**retry
            try:
                status, body, retry_after = _send_once(request)
            except (ConnectionResetError, IncompleteRead) as error:
                if request.get_method() != "GET":
                    raise _no_response_error(request, error) from error
            except (OSError, HTTPException, LongResponseError) as error:
                raise _no_response_error(request, error) from error
            else:
                if status not in _BUSY:
                    return status, body
                wait_s = _seconds(retry_after) or wait_s
            self.clock.sleep(min(wait_s, _WAIT_MAX_S))
        try:
            return _send_once(request)[:2]
        except (OSError, HTTPException, LongResponseError) as error:
            raise _no_response_error(request, error) from error


def _send_once(request: Request) -> tuple[int, bytes, str | None]:
    """Send a request once, and return status, body and ``Retry-After`` of the response."""
    try:
        body = response_body(request, timeout_s=_TIMEOUT_S, bytes_max=_RESPONSE_BYTES_MAX)
    except HTTPError as error:
        with error:
            return error.code, error.read(_REASON_BYTES_MAX), error.headers.get("Retry-After")
    return _SUCCESS.start, body, None


def _no_response_error(request: Request, error: Exception) -> StorageError:
    return StorageError(
        f"the catalog does not answer: {getattr(error, 'reason', error)}",
        where=f"{request.get_method()} {request.full_url}",
        fix="check that the catalog's server runs and can be reached from here, and that 'uri' of "
        "the catalog is right",
    )


def _seconds(retry_after: str | None) -> int:
    """Return the seconds that the server asks to wait; 0 without a request, or if it is a date."""
    is_number = retry_after is not None and re.fullmatch("[0-9]{1,4}", retry_after) is not None
    return int(retry_after or 0) if is_number else 0


def _refusal_error(status: int, body: bytes, where: str) -> StreamAppError:
    error_class, problem, fix = _REFUSALS.get(
        status,
        (
            StorageError,
            f"answers HTTP {status}",
            "see the log of the catalog's server, and check that 'uri' of the catalog is right",
        ),
    )
    return error_class(f"the catalog {problem}{_server_reason(body)}", where=where, fix=fix)


def _server_reason(body: bytes) -> str:
    """Return the server's explanation as the end of a sentence."""
    try:
        value = orjson.loads(body)
        text = str(value["message"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        text = body.decode(errors="replace")
    text = " ".join(text.split())[:_SHOWN_LENGTH_MAX]
    return f": {text}" if text else ""
