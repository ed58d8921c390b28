"""Schemas by their number from a registry, over Confluent's REST interface.

A schema of a number never changes, so a process asks for each once. A number without a schema is
asked for again after a while.

Source: Confluent's "Schema Registry API reference", ``GET /schemas/ids/{id}``; other registries,
such as Karapace, answer alike.
"""

from __future__ import annotations

import base64
import http.client
import json
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from stream_app.errors import SourceError, WrongSourceError

_TIMEOUT_S = 10
_ANSWER_MAX = 16 << 20
URL = "schema.registry.url"
USER_INFO = "schema.registry.basic.auth.user.info"

_UNKNOWN_S = 10.0

_known: dict[tuple[SchemaRegistry, int], str] = {}
_unknown: dict[tuple[SchemaRegistry, int], float] = {}
"""When the registry said that it has no schema of the number, by the monotonic clock."""
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class SchemaRegistry:
    """Where schemas are.

    Attributes:
        urls: of servers with the same schemas; they are asked in turn until one answers.
        user_info: ``USER:PASSWORD``; empty: no login.
        unknown_s: seconds for which a number stays unknown. Then it is asked for again, since a
            server may learn of a schema later than the producer.
    """

    urls: tuple[str, ...]
    user_info: str = ""
    unknown_s: float = _UNKNOWN_S

    def schema(self, number: int) -> str | None:
        """The JSON text of a schema of Avro; None: the registry has none of this number.

        Raises:
            SourceError: no server answers.
            WrongSourceError: the login is refused, or the schema is not Avro.
        """
        with _lock:
            if (found := _known.get((self, number))) is not None:
                return found
            asked = _unknown.get((self, number))
            if asked is not None and time.monotonic() - asked < self.unknown_s:
                return None
            found = self._asked(number)
            if found is None:
                _unknown[self, number] = time.monotonic()
            else:
                _known[self, number] = found
            return found

    def _asked(self, number: int) -> str | None:
        failures = []
        for url in self.urls:
            try:
                return _avro(self._get(f"{url.rstrip('/')}/schemas/ids/{number}"), number)
            except urllib.error.HTTPError as error:
                if error.code == http.HTTPStatus.NOT_FOUND:
                    return None
                if error.code in (http.HTTPStatus.UNAUTHORIZED, http.HTTPStatus.FORBIDDEN):
                    raise WrongSourceError(
                        f"the schema registry refuses the login: HTTP {error.code}",
                        where=url,
                        fix=f"check source.debezium.{USER_INFO}",
                    ) from None
                failures.append(f"{url}: HTTP {error.code}")
            except (OSError, http.client.HTTPException, ValueError) as error:
                failures.append(f"{url}: {error}")
        raise SourceError(
            f"the schema registry does not give schema {number}: {'; '.join(failures)}",
            where=f"source.debezium.{URL}",
            fix="check that the address is right, and that the registry runs and can be reached "
            "from Spark's workers",
        )

    def _get(self, url: str) -> Any:
        request = urllib.request.Request(
            url, headers={"Accept": "application/vnd.schemaregistry.v1+json"}
        )
        if self.user_info:
            login = base64.b64encode(self.user_info.encode()).decode()
            request.add_header("Authorization", f"Basic {login}")
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
            return json.loads(answer.read(_ANSWER_MAX))


def _avro(answer: Any, number: int) -> str:
    if not isinstance(answer, dict) or not isinstance(answer.get("schema"), str):
        raise ValueError("the answer has no schema")
    kind = answer.get("schemaType", "AVRO")
    if kind != "AVRO" or answer.get("references"):
        what = f"is of type {kind}" if kind != "AVRO" else "refers to other schemas"
        raise WrongSourceError(
            f"schema {number} {what}, and debezium-avro reads Avro in one schema",
            where=f"source.debezium.{URL}",
            fix="let the connector use io.confluent.connect.avro.AvroConverter",
        )
    return str(answer["schema"])


def url_problem(url: str) -> str:
    """What is wrong with an address; empty: nothing."""
    parts = urlsplit(url)
    is_right = parts.scheme in ("http", "https") and bool(parts.hostname)
    return "" if is_right else f"{url!r} is not an address such as http://registry:8081"
