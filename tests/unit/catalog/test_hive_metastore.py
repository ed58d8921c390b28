"""The client of a Hive metastore handles structs, addresses, settings and silent servers."""

from __future__ import annotations

import pickle
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TTransport import TMemoryBuffer

from stream_app.catalog.catalog_registry import open_catalog
from stream_app.catalog.hive.hive_catalog import HiveCatalog
from stream_app.catalog.hive.hive_site import addresses, timeout_ms
from stream_app.catalog.hive.hive_types import hive_type
from stream_app.catalog.hive.metastore_client import MetastoreClient, MetastoreMethod
from stream_app.catalog.hive.thrift_struct import (
    Struct,
    ThriftList,
    ThriftMap,
    ThriftType,
    ThriftValue,
    read_struct,
    text,
    write_struct,
)
from stream_app.clock import SystemClock
from stream_app.errors import StorageError, UsageError
from stream_app.model.schema.data_type import parse_data_type


def test_a_struct_keeps_unknown_fields() -> None:
    inner = Struct({7: ThriftValue(ThriftType.DOUBLE, 0.5), 900: ThriftValue(ThriftType.BYTE, 3)})
    pairs = ((b"\xff not UTF-8", inner), (b"", Struct()))
    struct = Struct(
        {
            1: text("größe"),
            2: ThriftValue(ThriftType.BOOL, True),
            25: ThriftValue(ThriftType.I64, 2**40),
            26: ThriftValue(ThriftType.SET, ThriftList(ThriftType.I16, (1, -2))),
            27: ThriftValue(ThriftType.MAP, ThriftMap(ThriftType.STRING, ThriftType.STRUCT, pairs)),
            28: ThriftValue(
                ThriftType.LIST,
                ThriftList(
                    ThriftType.LIST,
                    (ThriftList(ThriftType.I32, (4,)), ThriftList(ThriftType.I32, ())),
                ),
            ),
        }
    )
    buffer = TMemoryBuffer()
    write_struct(TBinaryProtocol(buffer), struct)
    copy = read_struct(TBinaryProtocol(TMemoryBuffer(buffer.getvalue())))
    assert copy == struct
    assert copy.text(1) == "größe"
    assert (copy.text(99), copy.integer(99), copy.texts(99), copy.text_map(99)) == (
        "", 0, [], {},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("paimon", "hive"),
    [
        ("BOOLEAN NOT NULL", "boolean"),
        ("TINYINT", "tinyint"),
        ("DECIMAL(38, 18)", "decimal(38,18)"),
        ("CHAR(255)", "char(255)"),
        ("CHAR(256)", "string"),
        ("VARCHAR(65535)", "varchar(65535)"),
        ("VARCHAR(65536)", "string"),
        ("VARBINARY(3)", "binary"),
        ("TIME(3)", "string"),
        ("TIMESTAMP(9)", "timestamp"),
        ("TIMESTAMP(6) WITH LOCAL TIME ZONE", "timestamp with local time zone"),
        ("MAP<STRING NOT NULL, ARRAY<INT>>", "map<string,array<int>>"),
    ],
)
def test_types_have_hives_names(paimon: str, hive: str) -> None:
    assert hive_type(parse_data_type(paimon)) == hive


@pytest.mark.parametrize(
    ("uris", "expected"),
    [
        ("thrift://a:1", "thrift://a:1"),
        (" thrift://a , thrift://b.c:2/", "thrift://a:9083 thrift://b.c:2"),
        ("thrift://[::1]:3", "thrift://::1:3"),
        ("http://a:1", "'http://a:1' is not an address"),
        ("a:9083", "'a:9083' is not an address"),
        (",", "the Hive catalog has no address"),
    ],
)
def test_each_address_of_a_metastore_has_host_and_port(uris: str, expected: str) -> None:
    try:
        result = " ".join(map(str, addresses(uris)))
    except UsageError as error:
        result = error.problem
    assert result.startswith(expected)


@pytest.mark.parametrize(
    ("text", "millis"), [("", 600_000), ("30", 30_000), ("5ms", 5), ("2m", 120_000)]
)
def test_durations_of_hive(text: str, millis: int) -> None:
    assert timeout_ms({"hive.metastore.client.socket.timeout": text}) == millis


def site(folder: Path, **settings: str) -> dict[str, str]:
    properties = "".join(
        f"<property><name>{name.replace('__', '.')}</name><value> {value} </value></property>"
        for name, value in settings.items()
    )
    (folder / "hive-site.xml").write_text(f"<configuration>{properties}</configuration>")
    return {"metastore": "hive", "hive-conf-dir": str(folder)}


def hive_catalog(options: dict[str, str]) -> HiveCatalog:
    catalog = open_catalog(options, SystemClock())
    assert isinstance(catalog, HiveCatalog)
    return catalog


def test_hive_site_gives_what_the_options_do_not(tmp_path: Path) -> None:
    options = site(
        tmp_path, hive__metastore__uris="thrift://h:1", hive__metastore__warehouse__dir="/w"
    )
    catalog = hive_catalog(options)
    assert (catalog.label, catalog.warehouse, catalog.lock) == ("thrift://h:1", "/w", None)
    catalog = hive_catalog({**options, "uri": "thrift://o", "lock.enabled": "true"})
    assert catalog.label == "thrift://o:9083"
    assert catalog.lock is not None


@pytest.mark.parametrize("key", ["hive__metastore__sasl__enabled", "hive__metastore__use__SSL"])
def test_a_connection_that_cannot_be_made_is_refused(tmp_path: Path, key: str) -> None:
    options = {**site(tmp_path, **{key: "TRUE"}), "uri": "thrift://h", "warehouse": "/w"}
    with pytest.raises(UsageError, match="does not support"):
        hive_catalog(options)


def test_a_site_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    options = {"metastore": "hive", "hive-conf-dir": str(tmp_path)}
    with pytest.raises(UsageError, match=r"hive-site\.xml cannot be read: No such file"):
        hive_catalog(options)
    (tmp_path / "hive-site.xml").write_text("<configuration>")
    with pytest.raises(UsageError, match=r"hive-site\.xml is not XML"):
        hive_catalog(options)


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Yield the port of a server that accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_metastore_that_does_not_answer_is_an_error(silent_port: int) -> None:
    client = MetastoreClient(addresses(f"thrift://127.0.0.1:{silent_port}"), 1, 50)
    with pytest.raises(StorageError, match="no Hive metastore responds"):
        client.call(MetastoreMethod("get_all_databases"))
    nobody = pickle.loads(pickle.dumps(MetastoreClient(addresses("thrift://127.0.0.1:1"), 1, 50)))
    with pytest.raises(StorageError, match="no Hive metastore responds") as error:
        nobody.call(MetastoreMethod("get_all_databases"))
    assert "'uri' of the catalog" in error.value.fix
