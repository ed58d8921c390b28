"""Reads the settings of Hive's clients, ``hive-site.xml``.

Source: Paimon `hive/HiveCatalog.java#createHiveConf`, Hive `MetastoreConf.java`.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stream_app.catalog.catalog_options import HIVE_CONF_DIR, WAREHOUSE
from stream_app.errors import UsageError

_FILE = "hive-site.xml"
_DEFAULT_PORT = 9083
_DEFAULT_TIMEOUT_MS = 600_000
_URI = re.compile(r"thrift://(?P<host>\[[0-9a-fA-F:]+\]|[^:/\s]+)(?::(?P<port>\d{1,5}))?/?")
_TIMEOUT = re.compile(r"(\d+)\s*(s|sec|seconds?|ms|msec|m|min|minutes?|)", re.IGNORECASE)
_UNSUPPORTED_KEYS = {
    "hive.metastore.sasl.enabled": "Kerberos",
    "hive.metastore.use.SSL": "TLS",
    "hive.metastore.thrift.framed.transport.enabled": "framed messages",
    "hive.metastore.thrift.compact.protocol.enabled": "the compact protocol",
}


@dataclass(frozen=True, slots=True)
class MetastoreAddress:
    """Host and port of a metastore."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"thrift://{self.host}:{self.port}"


def with_hive_site(options: Mapping[str, str], environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return a catalog's options, completed by the settings of ``hive-site.xml``.

    Raises:
        UsageError: the folder of ``hive-conf-dir`` has no such file, or the file is not XML.
    """
    folder = HIVE_CONF_DIR.read(options) or environ.get("HIVE_CONF_DIR")
    site = _read_site(Path(folder) / _FILE) if folder else {}
    warehouse = site.get("hive.metastore.warehouse.dir")
    return {**site, **({WAREHOUSE.key: warehouse} if warehouse else {}), **options}


def _read_site(file: Path) -> Mapping[str, str]:
    try:
        root = ET.fromstring(file.read_bytes())
    except OSError as error:
        raise UsageError(
            f"{_FILE} cannot be read: {error.strerror}",
            where=str(file),
            fix="correct 'hive-conf-dir' or the variable HIVE_CONF_DIR",
        ) from None
    except ET.ParseError as error:
        raise UsageError(
            f"{_FILE} is not XML: {error}", where=str(file), fix="correct its XML"
        ) from None
    return {
        (setting.findtext("name") or "").strip(): (setting.findtext("value") or "").strip()
        for setting in root.iter("property")
    }


def check_supported(options: Mapping[str, str]) -> None:
    """Refuse connection settings that this client does not support.

    Raises:
        UsageError: the metastore requires Kerberos, TLS or another protocol.
    """
    for key, feature in _UNSUPPORTED_KEYS.items():
        if options.get(key, "").lower() == "true":
            raise UsageError(
                f"{key} = true: this client of the metastore does not support {feature}",
                fix=f"use a metastore without {feature}, or a JDBC or REST catalog",
            )


def addresses(uris: str) -> tuple[MetastoreAddress, ...]:
    """Parse the addresses of metastores, ``thrift://host:port,thrift://host:port``.

    Raises:
        UsageError: a text is not such an address, or the list is empty.
    """
    parts = [part.strip() for part in uris.split(",") if part.strip()]
    matches = [_URI.fullmatch(part) for part in parts]
    for part, match in zip(parts, matches, strict=True):
        if match is None:
            raise UsageError(
                f"{part!r} is not an address of a Hive metastore", fix="write thrift://HOST:PORT"
            )
    if not parts:
        raise UsageError(
            "the Hive catalog has no address",
            fix="set 'uri' = thrift://HOST:PORT, or 'hive-conf-dir' with hive.metastore.uris",
        )
    return tuple(
        MetastoreAddress(match["host"].strip("[]"), int(match["port"] or _DEFAULT_PORT))
        for match in matches
        if match is not None
    )


def timeout_ms(options: Mapping[str, str]) -> int:
    """Parse ``hive.metastore.client.socket.timeout``; a number without a unit means seconds.

    Raises:
        UsageError: the text is not a duration.
    """
    key = "hive.metastore.client.socket.timeout"
    value = options.get(key)
    if not value:
        return _DEFAULT_TIMEOUT_MS
    match = _TIMEOUT.fullmatch(value)
    if match is None:
        raise UsageError(f"{key} = {value!r} is not a duration", fix="write for example 600s")
    unit = match[2].lower()
    factor = 1 if unit.startswith("ms") else 60_000 if unit.startswith("m") else 1000
    return int(match[1]) * factor
