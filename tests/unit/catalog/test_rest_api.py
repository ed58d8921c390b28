"""The REST catalog's client reacts to each status of an answer."""

from __future__ import annotations

import pytest

from stream_app.catalog.catalog_registry import open_catalog
from stream_app.catalog.identifier import Identifier
from stream_app.catalog.rest.rest_api import RestApi
from stream_app.catalog.rest.rest_catalog import RestCatalog
from stream_app.errors import NoAccessError, StorageError, StreamAppError, UsageError
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import new_table_schema
from tests.support.servers.http_receiver import http_receiver
from tests.support.tables.small_table import StandingClock

OPTIONS = {
    "metastore": "rest", "uri": "http://127.0.0.1:1", "warehouse": "w", "token.provider": "bear",
    "token": "t",
}  # fmt: skip


def test_a_busy_server_is_asked_again_and_again_later() -> None:
    clock = StandingClock()
    began = clock.now_ms()
    with http_receiver(503, 429, 503) as server:
        api = RestApi(uri=server.url, clock=clock, headers={"Authorization": "Bearer t"})
        assert api.post("databases", body={"name": "a b"}).is_success
    assert clock.now_ms() - began == 7000  # 1, 2 and 4 seconds
    assert [request.path for request in server.requests] == ["/v1/databases"] * 4
    assert {request.headers["Authorization"] for request in server.requests} == {"Bearer t"}


def test_a_server_that_stays_busy_is_an_error() -> None:
    with http_receiver(*[503] * 6) as server:
        api = RestApi(uri=server.url, clock=StandingClock(), headers={})
        with pytest.raises(StorageError, match="answers HTTP 503"):
            api.post("databases", body={})


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (302, StorageError), (400, UsageError), (401, NoAccessError), (403, NoAccessError),
        (405, StorageError), (500, StorageError),
    ],
)  # fmt: skip
def test_other_statuses_are_errors_at_once(status: int, kind: type[StreamAppError]) -> None:
    with http_receiver(status) as server:
        api = RestApi(uri=server.url, clock=StandingClock(), headers={}, prefix="a/b")
        with pytest.raises(kind) as error:
            api.post("databases", "x y", body={})
    assert type(error.value) is kind
    assert [request.path for request in server.requests] == ["/v1/a%2Fb/databases/x+y"]


@pytest.mark.parametrize(
    ("statuses", "reason", "fix"),
    [
        ((409,), "something else has this name", "another name"),
        ((404, 200, 404), "it has no such database", "check 'warehouse'"),
    ],
)
def test_a_refused_table_has_the_reason_of_its_status(
    statuses: tuple[int, ...], reason: str, fix: str
) -> None:
    # The catalog asks for no table with a dollar sign.
    identifier = Identifier("shop", "orders$b")
    columns = parse_columns("a INT")
    schema = new_table_schema(
        columns=columns, primary_keys=(), partition_keys=(), options={}, time_ms=0
    )
    with http_receiver(*statuses) as server:
        api = RestApi(uri=server.url, clock=StandingClock(), headers={})
        catalog = RestCatalog(api=api, warehouse="w", options={})
        with pytest.raises(UsageError, match=reason) as error:
            catalog.create_table(identifier, schema)
    assert fix in str(error.value)
    assert len(server.requests) == len(statuses)


@pytest.mark.parametrize(
    ("option", "match"),
    [
        ({"token": ""}, "token is missing"),
        ({"token": "two\nlines"}, "characters that cannot be sent"),
        ({"token.provider": "dlf"}, "'token.provider' is 'dlf'"),
        ({"token.provider": ""}, "'token.provider' is missing"),
        ({"uri": "http://user:secret@host"}, "not an address of a server"),
        ({"uri": ""}, "not an address of a server"),
        ({"header.X": "two\nlines"}, "header 'X'"),
        ({"dlf.region": "r"}, "dlf.region"),
    ],
)
def test_options_that_cannot_be_are_refused(option: dict[str, str], match: str) -> None:
    with pytest.raises(UsageError, match=match) as error:
        open_catalog({**OPTIONS, **option}, StandingClock())
    assert "secret" not in str(error.value)
