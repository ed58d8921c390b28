"""Clients log in to an Iceberg REST catalog by token, OAuth and AWS signature.

Iceberg's own server of its test fixtures asks for none, so a server before it does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog, load_catalog

from stream_app.app.cli.main import main
from stream_app.table.opening import open_file_store_table
from tests.support.jobs.table_writer import read_rows
from tests.support.servers.catalog_proxy import GuardedCatalog, Logins, SigningKey
from tests.support.tables.catalog_table import (
    catalog_table,
    commits_within,
    rows_in,
    silent_port,
)
from tests.support.tables.small_table import SmallTable
from tests.testbed.servers.iceberg_rest import IcebergRest

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]
REST = "metadata.iceberg.rest."
TOKEN, SECRET = "token-that-lets-in", "secret-of-the-writer"
KEY = SigningKey("AKIAWRITER", "signing/secret+of+the+writer", "eu-central-1", "glue")


@pytest.fixture(scope="module")
def server() -> Iterator[IcebergRest]:
    with closing(IcebergRest()) as rest_server:
        yield rest_server


@pytest.fixture
def catalog(server: IcebergRest) -> Catalog:
    return load_catalog("reader", type="rest", uri=server.uri)


@pytest.fixture
def guarded_catalog(server: IcebergRest) -> Iterator[GuardedCatalog]:
    with closing(GuardedCatalog(server.uri, Logins())) as proxy:
        yield proxy


@pytest.fixture
def signed_requests(
    guarded_catalog: GuardedCatalog, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    guarded_catalog.logins.key = KEY
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEY.secret_key)


def a_guarded_table(folder: Path, uri: str, **settings: str) -> SmallTable:
    """A table in a catalog; the settings are the client's."""
    chosen = {"metadata.iceberg.storage": "rest-catalog", f"{REST}uri": uri}
    chosen |= {REST + key.replace("_", "-"): value for key, value in settings.items()}
    return catalog_table(folder, "id INT", (), chosen)


def with_settings(table: SmallTable, epoch: int, **settings: str) -> SmallTable:
    changed_variables = {REST + key.replace("_", "-"): value for key, value in settings.items()}
    return SmallTable(
        open_file_store_table(table.path).with_options(changed_variables), epoch=epoch
    )


def ids_of(catalog: Catalog, table: SmallTable) -> list[int]:
    return sorted(rows_in(catalog, table).column("id").to_pylist())


def commit(table: SmallTable, *numbers: int) -> None:
    for number in numbers:
        table.commit(("+I", {"id": number}))


def test_a_wrong_token_is_an_error_with_its_keys_and_a_right_one_catches_up(
    tmp_path: Path,
    guarded_catalog: GuardedCatalog,
    catalog: Catalog,
    caplog: pytest.LogCaptureFixture,
) -> None:
    guarded_catalog.logins.tokens = {TOKEN}
    table = a_guarded_table(tmp_path, guarded_catalog.uri, token="token-of-nobody")
    commit(table, 0, 1)
    assert "the Iceberg catalog refuses the login: NotAuthorizedException" in caplog.text
    assert f"where: {table.table.label} of {guarded_catalog.uri}" in caplog.text
    for key in ("PYICEBERG_CATALOG__REST__TOKEN", f"{REST}token"):
        assert key in caplog.text
    assert "token-of-nobody" not in caplog.text
    assert len(read_rows(table.table)) == 2
    commit(with_settings(table, 2, token=TOKEN), 2)
    assert ids_of(catalog, table) == [0, 1, 2]


def test_a_token_of_the_driver_s_environment_is_in_no_schema_and_no_output(
    tmp_path: Path,
    guarded_catalog: GuardedCatalog,
    catalog: Catalog,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__REST__TOKEN", TOKEN)
    guarded_catalog.logins.tokens = {TOKEN}
    table = a_guarded_table(tmp_path, guarded_catalog.uri)
    commit(table, 7)
    assert ids_of(catalog, table) == [7]
    assert TOKEN not in (Path(table.path) / "schema" / "schema-0").read_text()
    for words in (["check"], ["inspect"], ["inspect", "options"], ["compact", "--dry-run"]):
        assert main([words[0], table.path, *words[1:]]) == 0
    assert main(["read", table.path, "--where", f"id = 'no {TOKEN}'"]) == 2
    shown = capfd.readouterr()
    assert "found 'no ****'" in shown.err
    assert TOKEN not in shown.out + shown.err


def test_a_secret_among_the_options_is_hidden_where_they_are_shown(
    tmp_path: Path, guarded_catalog: GuardedCatalog, capfd: pytest.CaptureFixture[str]
) -> None:
    guarded_catalog.logins.credential = f"writer:{SECRET}"
    login = {"oauth2_server_uri": f"{guarded_catalog.uri}/login"}
    table = a_guarded_table(tmp_path, guarded_catalog.uri, credential=f"writer:{SECRET}", **login)
    for view in ("options", "schemas"):
        assert main(["inspect", table.path, view]) == 0
        shown = capfd.readouterr().out
        assert f"{REST}credential" in shown
        assert "****" in shown
        assert SECRET not in shown


def test_oauth_gives_a_token_and_a_new_one_when_that_has_ended(
    tmp_path: Path,
    guarded_catalog: GuardedCatalog,
    catalog: Catalog,
    caplog: pytest.LogCaptureFixture,
) -> None:
    guarded_catalog.logins.credential, guarded_catalog.logins.scope = (
        f"writer:{SECRET}",
        "catalog:write",
    )
    login = {"oauth2_server_uri": f"{guarded_catalog.uri}/login", "scope": "catalog:write"}
    table = a_guarded_table(tmp_path, guarded_catalog.uri, credential=f"writer:{SECRET}", **login)
    commit(table, 0)
    assert ids_of(catalog, table) == [0]
    guarded_catalog.logins.tokens.clear()  # they have ended
    commit(table, 1)
    assert ids_of(catalog, table) == [0, 1]
    assert "do not see" not in caplog.text


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"credential": "writer:secret-of-nobody"}, "invalid_client: nobody knows this secret"),
        ({"scope": "another"}, "invalid_scope"),
    ],
    ids=["secret", "scope"],
)
def test_a_login_that_oauth_refuses_is_an_error_with_its_keys(
    tmp_path: Path,
    guarded_catalog: GuardedCatalog,
    catalog: Catalog,
    caplog: pytest.LogCaptureFixture,
    wrong: dict[str, str],
    says: str,
) -> None:
    guarded_catalog.logins.credential = f"writer:{SECRET}"
    right = {"oauth2_server_uri": f"{guarded_catalog.uri}/login", "credential": f"writer:{SECRET}"}
    table = a_guarded_table(tmp_path, guarded_catalog.uri, **{**right, **wrong})
    commit(table, 0)
    assert f"the Iceberg catalog refuses the login: {says}" in caplog.text
    for key in ("credential", "oauth2-server-uri", "scope"):
        assert f"{REST}{key}" in caplog.text
    assert "secret-of" not in caplog.text
    commit(with_settings(table, 1, **right, scope="catalog"), 1)
    assert ids_of(catalog, table) == [0, 1]


def test_requests_are_signed_as_aws_wants_it(
    tmp_path: Path, guarded_catalog: GuardedCatalog, signed_requests: None, catalog: Catalog
) -> None:
    settings = {"rest.sigv4-enabled": "true", "rest.signing-region": KEY.region}
    table = a_guarded_table(
        tmp_path, guarded_catalog.uri, **settings, **{"rest.signing-name": KEY.service}
    )
    commit(table, 0, 1)
    assert ids_of(catalog, table) == [0, 1]


@pytest.mark.usefixtures("signed_requests")
def test_a_signature_by_another_key_is_an_error_and_so_is_a_missing_key(
    tmp_path: Path, guarded_catalog: GuardedCatalog, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-of-nobody")
    settings = {"rest.sigv4-enabled": "true", "rest.signing-region": KEY.region}
    table = a_guarded_table(
        tmp_path, guarded_catalog.uri, **settings, **{"rest.signing-name": KEY.service}
    )
    commit(table, 0)
    assert (
        "does not permit the request: ForbiddenException: the signature does not match"
        in caplog.text
    )
    assert f"{REST}rest.signing-region" in caplog.text
    assert "secret-of-nobody" not in caplog.text
    caplog.clear()
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    commit(with_settings(table, 1), 1)
    assert "there are no keys of AWS, or no region" in caplog.text
    assert len(read_rows(table.table)) == 2


def test_a_login_that_may_only_read_gets_an_error_with_the_missing_right(
    tmp_path: Path,
    guarded_catalog: GuardedCatalog,
    catalog: Catalog,
    caplog: pytest.LogCaptureFixture,
) -> None:
    guarded_catalog.logins.tokens, guarded_catalog.logins.is_reader = {TOKEN}, True
    table = a_guarded_table(tmp_path, guarded_catalog.uri, token=TOKEN)
    commit(table, 0)
    assert (
        "does not permit the request: ForbiddenException: a reader changes nothing" in caplog.text
    )
    assert "give the login the rights to load, register and change this table" in caplog.text
    guarded_catalog.logins.is_reader = False
    commit(table, 1)
    assert ids_of(catalog, table) == [0, 1]


def test_a_login_that_never_comes_holds_no_commit(
    tmp_path: Path, guarded_catalog: GuardedCatalog, caplog: pytest.LogCaptureFixture
) -> None:
    with silent_port() as port:
        login = {"oauth2_server_uri": f"http://127.0.0.1:{port}", "credential": f"writer:{SECRET}"}
        timeout = {"rest.client.socket-timeout-ms": "300"}
        assert commits_within(
            a_guarded_table(tmp_path, guarded_catalog.uri, **login, **timeout), 60
        )
    assert "timed out" in caplog.text
    assert SECRET not in caplog.text


def test_an_error_about_something_that_is_not_a_login_server_hides_its_answer(
    tmp_path: Path, guarded_catalog: GuardedCatalog, caplog: pytest.LogCaptureFixture
) -> None:
    login = {"oauth2_server_uri": f"{guarded_catalog.uri}/page", "credential": f"writer:{SECRET}"}
    commit(a_guarded_table(tmp_path, guarded_catalog.uri, **login), 0)
    assert (
        "the answer is not from an Iceberg REST catalog, or not from its login server"
        in caplog.text
    )
    assert f"{REST}oauth2-server-uri" in caplog.text
    assert SECRET not in caplog.text
