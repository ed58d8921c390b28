"""Fetches schemas by their number from a registry over HTTP (`registry_apis`).

The schema of a number never changes, so a process fetches each once. Producers choose the numbers,
so an unknown number only makes its messages bad, and is requested again after a while. A registry
that does not answer raises an error and makes no message bad.

Source: none. The treatment of missing responses is stream_app's.
"""

from __future__ import annotations

import base64
import http.client
import threading
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import urlsplit

from stream_app.cdc.bad_reasons import UnreadableRecordError
from stream_app.cdc.schema_registry_port import (
    NO_HEAD,
    URL,
    USER_INFO,
    IdKind,
    RegisteredSchema,
    Registries,
)
from stream_app.clock import Clock, SystemClock
from stream_app.errors import SourceError, WrongSourceError
from stream_app.kafka.registry_apis import (
    Get,
    RegistryRefusalError,
    registered_at,
    schema_number_of_guid,
)
from stream_app.network.http_request import LongResponseError, response_body

_TIMEOUT_S = 10
_RESPONSE_BYTES_MAX = 16 << 20

_REFUSED_S = 10.0
_REFUSED_MAX = 10_000
"""The most refused numbers that are remembered; beyond that the oldest is forgotten."""
_SCHEMA_NUMBER_MAX = 2**31 - 1
"""The greatest number of a schema: registries count in Java's int."""
_PAUSES_S = (0.2, 1.0, 3.0)
_MISSING_CODES = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.GONE, HTTPStatus.UNPROCESSABLE_ENTITY})
"""The codes by which a registry answers that it has no schema of a number."""
_LOGIN_CODES = frozenset(
    {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.PROXY_AUTHENTICATION_REQUIRED}
)
_BUSY_CODES = frozenset(
    {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}
)
_ANYTHING = "*/*;q=0.5"
_FIRST_REDIRECT, _FIRST_REFUSAL, _FIRST_FAULT = 300, 400, 500

_SchemaId = int | bytes
"""The number of a schema, or its GUID."""
_RegistryValue = RegisteredSchema | int
_RegistryValueT = TypeVar("_RegistryValueT", RegisteredSchema, int)
_values: dict[tuple[SchemaRegistry, _SchemaId], _RegistryValue] = {}
_refusals: dict[tuple[SchemaRegistry, _SchemaId], tuple[float, str]] = {}
"""Registry and number of a schema → when, by the monotonic clock, and why it was refused."""
_lock = threading.Lock()
"""The lock of both dictionaries; it is free while a registry is asked."""


@dataclass(frozen=True, slots=True)
class SchemaRegistry:
    """A client of a schema registry. Implements `cdc.schema_registry_port.Schemas`.

    Attributes:
        urls: the addresses of servers with the same schemas; asked in turn until one answers.
        user_info: the login as ``USER:PASSWORD``; empty without one.
        section: the section of the options that name the registry, for errors.
        id_kind: the kind of id that Apicurio's numbers are.
        refusal_period_s: seconds for which a number stays refused. Then it is requested again,
            because a server may learn of a schema later than the producer.
        pauses_s: seconds before all servers are asked again, when none can answer for now.
    """

    urls: tuple[str, ...]
    user_info: str = ""
    section: str = "debezium"
    id_kind: IdKind = IdKind.AUTO
    refusal_period_s: float = _REFUSED_S
    pauses_s: tuple[float, ...] = _PAUSES_S
    clock: Clock = field(default_factory=SystemClock, compare=False)

    def schema(self, schema_number: int) -> RegisteredSchema:
        """See `Schemas.schema`."""
        if schema_number < 0:
            raise UnreadableRecordError(NO_HEAD)

        def ask(url: str, get: Get) -> RegisteredSchema:
            return registered_at(url, get, schema_number, self.id_kind)

        if schema_number > _SCHEMA_NUMBER_MAX:
            reason = f"names schema {schema_number}, which the schema registry does not have"
            raise UnreadableRecordError(reason)
        return self._cached_value(schema_number, RegisteredSchema, ask)

    def schema_number_of(self, guid: bytes) -> int:
        """See `Schemas.schema_number_of`."""
        return self._cached_value(
            guid, int, lambda _, get: schema_number_of_guid(get, uuid.UUID(bytes=guid))
        )

    def _cached_value(
        self,
        schema_id: _SchemaId,
        value_type: type[_RegistryValueT],
        ask: Callable[[str, Get], _RegistryValueT],
    ) -> _RegistryValueT:
        """Return the schema of a number, or the number of a GUID, and request it only once."""
        key = (self, schema_id)
        with _lock:
            known_value, refusal = _values.get(key), _refusals.get(key)
        if isinstance(known_value, value_type):
            return known_value
        if refusal is not None and self.clock.steady_seconds() - refusal[0] < self.refusal_period_s:
            raise UnreadableRecordError(refusal[1])
        try:
            value = self._fetch(schema_id, ask)
        except RegistryRefusalError as error:
            with _lock:
                _refusals.pop(key, None)
                _refusals[key] = self.clock.steady_seconds(), str(error)
                if len(_refusals) > _REFUSED_MAX:
                    del _refusals[next(iter(_refusals))]
            raise UnreadableRecordError(str(error)) from None
        with _lock:
            _values[key] = value
        return value

    def _fetch(
        self, schema_id: _SchemaId, ask: Callable[[str, Get], _RegistryValueT]
    ) -> _RegistryValueT:
        """Ask each server in turn, and all of them again later after a transient failure.

        Raises:
            SourceError: no server has answered.
        """
        for pause_s in (*self.pauses_s, None):
            failures, is_transient = [], False
            for url in self.urls:
                try:
                    return ask(url, partial(self._body, url.rstrip("/")))
                except urllib.error.HTTPError as error:
                    failures.append(f"{url}: {_status(error)}")
                    is_transient |= error.code in _BUSY_CODES or error.code >= _FIRST_FAULT
                except (OSError, http.client.HTTPException, ValueError) as error:
                    failures.append(f"{url}: {error}")
            if not is_transient or pause_s is None:
                break
            self.clock.sleep(pause_s)
        label = uuid.UUID(bytes=schema_id) if isinstance(schema_id, bytes) else schema_id
        raise SourceError(
            f"the schema registry does not give schema {label}: {'; '.join(failures)}",
            where=f"source.{self.section}.{URL}",
            fix="check that the address is right, and that the registry runs and can be reached "
            "from Spark's workers",
        )

    def _body(self, server: str, path: str, reason_prefix: str) -> bytes:
        """Return the body at a path of a server.

        Args:
            reason_prefix: the beginning of the reason if nothing is there.
        """
        accepted_types = f"application/vnd.schemaregistry.v1+json, {_ANYTHING}"
        url = server + path
        request = urllib.request.Request(url, headers={"Accept": accepted_types})
        if self.user_info:
            login = base64.b64encode(self.user_info.encode()).decode()
            request.add_header("Authorization", f"Basic {login}")
        try:
            return response_body(request, timeout_s=_TIMEOUT_S, bytes_max=_RESPONSE_BYTES_MAX)
        except LongResponseError:
            raise RegistryRefusalError(f"{reason_prefix} is larger than 16 MiB") from None
        except urllib.error.HTTPError as error:
            error.close()
            if error.code in _MISSING_CODES:
                raise RegistryRefusalError(
                    f"{reason_prefix} the schema registry does not have"
                ) from None
            if error.code in _LOGIN_CODES:
                raise WrongSourceError(
                    f"the schema registry refuses the login: HTTP {error.code}",
                    where=url,
                    fix=f"check source.{self.section}.{USER_INFO}",
                ) from None
            raise


def _status(error: urllib.error.HTTPError) -> str:
    if _FIRST_REDIRECT <= error.code < _FIRST_REFUSAL:
        address = error.headers.get("Location", "no address")
        return f"HTTP {error.code}, a redirect to {address}, which is not followed"
    return f"HTTP {error.code}"


def url_problem(url: str) -> str:
    """Return the problem of an address; empty without one."""
    parts = urlsplit(url)
    if parts.username is not None:
        return f"an address has a login, which belongs to {USER_INFO}"
    is_right = parts.scheme in ("http", "https") and bool(parts.hostname)
    return "" if is_right else f"{url!r} is not an address such as http://registry:8081"


REGISTRIES = Registries(schemas_at=SchemaRegistry, url_problem=url_problem)
