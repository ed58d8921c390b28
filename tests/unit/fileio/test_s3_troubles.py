"""A user's errors with stores come soon, in known words, and say what to do."""

from __future__ import annotations

import errno
import re
import socket
import ssl
import time
from collections.abc import Iterable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from werkzeug.serving import make_server

from stream_app.errors import StorageError, UsageError
from stream_app.fileio.s3 import s3_file_io
from stream_app.fileio.s3.s3_options import s3_options
from stream_app.fileio.store_registry import file_io_of
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import new_table_schema
from stream_app.table.opening import create_or_open, open_file_store_table, require_writable
from tests.support.brokers.secure_kafka import make_authority, make_certificate
from tests.support.servers.s3_server import S3Server

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse

SCHEMA = new_table_schema(
    columns=parse_columns("k INT"),
    primary_keys=("k",),
    partition_keys=(),
    options={"bucket": "1"},
    time_ms=1,
)
QUICK = 30.0
"""Seconds, for what a machine says at once; the client alone would try for minutes."""


def error_of(location: str, options: dict[str, str]) -> StorageError:
    began = time.monotonic()
    with pytest.raises(StorageError) as caught:
        open_file_store_table(location, file_io_options=options)
    assert time.monotonic() - began < QUICK
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.where.startswith(location)
    return caught.value


@pytest.mark.parametrize(
    ("status", "code", "fix"),
    [
        (403, "InvalidAccessKeyId", "check that the keys .* are right"),
        (403, "SignatureDoesNotMatch", r"s3\.secret-key belongs to s3\.access-key"),
        (400, "ExpiredToken", r"give valid keys.*\$\{file:PATH\}"),
        (403, "AccessDenied", "permissions s3:ListBucket, s3:GetObject, s3:PutObject"),
        (301, "PermanentRedirect", r"set s3\.region"),
        (400, "AuthorizationHeaderMalformed", r"set s3\.region"),
        (404, "NoSuchBucket", "create the bucket, or correct its name"),
        (403, "RequestTimeTooSkewed", "clock"),
        (503, "SlowDown", "start again later"),
        (418, "Teapot", "check that the store can be reached"),
    ],
)
def test_an_answer_of_the_store(s3: S3Server, status: int, code: str, fix: str) -> None:
    s3.error = (status, code)
    error = error_of("s3://b/t", s3.options)
    assert re.search(fix, error.fix)
    if status != 301:
        assert code in error.problem


def test_a_port_without_a_server() -> None:
    error = error_of("s3://b/t", OPTIONS | {"s3.endpoint": "http://127.0.0.1:9"})
    assert error.problem.endswith("the endpoint refuses connections: http://127.0.0.1:9")
    assert "s3.endpoint is right" in error.fix


def test_a_host_name_that_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    error = error_of("s3://b/t", OPTIONS | {"s3.endpoint": "http://no-such-host.invalid"})
    assert "host name is unknown: http://b.no-such-host.invalid" in error.problem
    assert "s3.path.style.access = true" in error.fix


@pytest.mark.slow
def test_a_server_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests that clear away do not wait for the server again."""
    monkeypatch.setitem(s3_file_io._FIRST_TIMEOUTS, "timeout", "500ms")
    monkeypatch.setitem(s3_file_io._FIRST_RETRIES, "retry_timeout", timedelta(milliseconds=500))
    with socket.create_server(("127.0.0.1", 0)) as mute:
        endpoint = f"http://127.0.0.1:{mute.getsockname()[1]}"
        error = error_of("s3://b/t", OPTIONS | {"s3.endpoint": endpoint})
        assert "does not answer in time" in error.problem
        began = time.monotonic()
        with pytest.raises(StorageError, match="does not answer in time"):
            create_or_open("s3://b/t", SCHEMA, file_io_options=OPTIONS | {"s3.endpoint": endpoint})
        assert time.monotonic() - began < QUICK


def test_a_client_waits_longer_for_a_store_that_has_answered(s3: S3Server) -> None:
    path = f"s3://{s3.new_bucket()}/t/f"
    io = file_io_of(path, s3.options)[1]
    io.write_bytes(path, b"1")
    requests = 0

    def ail(method: str, _: str) -> None:
        nonlocal requests
        requests += 1
        s3.error = (503, "SlowDown") if requests <= 5 else None

    s3.before = ail
    assert io.read_bytes(path) == b"1"
    assert requests == 6


OPTIONS = {"s3.access-key": "k", "s3.secret-key": "s"}


@pytest.fixture
def with_tls(s3: S3Server, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """An endpoint with a certificate, and the authority's, which nobody knows."""
    import threading

    authority, key = make_authority(tmp_path / "ca.pem")
    make_certificate(tmp_path / "server.pem", authority, key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem")

    def pass_on(environ: dict[str, Any], start: StartResponse) -> Iterable[bytes]:
        assert s3.app is not None
        return s3.app(environ, start)

    server = make_server("127.0.0.1", 0, pass_on, threaded=True, ssl_context=context)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"https://127.0.0.1:{server.server_address[1]}", tmp_path / "ca.pem"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.slow
def test_an_untrusted_certificate(
    s3: S3Server, with_tls: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint, authority = with_tls
    location, options = f"s3://{s3.new_bucket()}/t", s3.options | {"s3.endpoint": endpoint}
    error = error_of(location, options)
    assert error.problem.endswith(f"certificate is not trusted (UnknownIssuer): {endpoint}")
    assert "AWS_CA_BUNDLE" in error.fix
    monkeypatch.setenv("AWS_CA_BUNDLE", str(authority))
    assert create_or_open(location, SCHEMA, file_io_options=options).schema == SCHEMA
    monkeypatch.setenv("AWS_CA_BUNDLE", f"{authority}x")
    with pytest.raises(UsageError, match=r"certificates in .* cannot be read"):
        open_file_store_table(location, file_io_options=options)


@pytest.mark.slow
def test_tls_where_there_is_none_and_the_other_way_round(
    s3: S3Server, with_tls: tuple[str, Path]
) -> None:
    plain = s3.endpoint.replace("http:", "https:")
    error = error_of("s3://b/t", OPTIONS | {"s3.endpoint": plain})
    assert "does not speak TLS" in error.problem
    assert "http://" in error.fix
    secure = with_tls[0].replace("https:", "http:")
    error = error_of("s3://b/t", OPTIONS | {"s3.endpoint": secure})
    assert "https://" in error.fix


def test_an_identity_that_may_only_read_gets_an_error_that_says_so(s3: S3Server) -> None:
    location = f"s3://{s3.new_bucket()}/t"
    table = create_or_open(location, SCHEMA, file_io_options=s3.options)
    s3.error, s3.error_at = (403, "AccessDenied"), "/.probe"
    assert open_file_store_table(location, file_io_options=s3.options).schema == SCHEMA
    with pytest.raises(StorageError, match="AccessDenied") as caught:
        require_writable(table)
    assert caught.value.where.startswith(f"{location}/.probe")
    assert "s3:PutObject" in caught.value.fix


def test_a_store_that_knows_no_conditions_is_reported(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    location = f"s3://{s3.new_bucket()}/t"
    table = create_or_open(location, SCHEMA, file_io_options=s3.options)
    s3.error, s3.error_at = (501, "NotImplemented"), "/.probe"
    with pytest.raises(StorageError, match="NotImplemented") as caught:
        require_writable(table)
    assert "conditional PUTs" in caught.value.fix


@pytest.mark.parametrize(
    ("location", "problem"),
    [
        ("s3://AKIA:hushhush@bucket/t", "holds keys"),
        ("oss://bucket/t", r"Aliyun OSS.*s3\.endpoint"),
        ("gs://bucket/t", r"Google Cloud Storage.*s3://BUCKET"),
        ("abfs://c@account.dfs.core.windows.net/t", "Azure does not"),
    ],
)
def test_other_locations(location: str, problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_file_store_table(location)
    assert re.search(problem, str(caught.value), re.S)
    assert "hushhush" not in str(caught.value)


@pytest.mark.parametrize(
    ("option", "value", "problem"),
    [
        ("s3.endpoint", "https://user:hushhush@host", "holds a user or a password"),
        ("s3.endpoint", "https://ho st", "is not a URL"),
        ("s3.endpoint", "ftp://host", "is not a URL"),
        ("s3.endpoint", "https://host:port", "is not a URL"),
        ("s3.endpoint", "https://host/?q", "is not a URL"),
        ("s3.aws.credentials.provider", "x.Y", "AWS_PROFILE"),
        ("fs.s3a.assumed.role.arn", "arn", "role_arn"),
        ("s3.connection.maximum", "100", "tunes Hadoop's client"),
        ("s3.proxy.host", "p", "HTTPS_PROXY"),
        ("s3.signing-algorithm", "S3SignerType", "version 4"),
        ("s3.encryption.algorithm", "SSE-C", "AES256, SSE-S3, SSE-KMS"),
        ("oss.endpoint", "x", "no known file system"),
        ("s3.bucket.b.endpiont", "x", r"did you mean 's3\.bucket\.b\.endpoint'"),
        ("s3.region", "${file:/no/such}", "file cannot be read"),
    ],
)
def test_options_that_are_not_taken(option: str, value: str, problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        file_io_of("s3://b/t", {option: value})
    assert re.search(problem, str(caught.value), re.S)
    assert "hushhush" not in str(caught.value)


def test_buckets_have_settings_of_their_own() -> None:
    options = {
        "s3.endpoint": "all.example.org",
        "s3.access-key": "a",
        "s3.secret-key": "b",
        "s3.bucket.lake.access-key": "c",
        "s3.bucket.lake.secret-key": "d",
        "fs.s3a.bucket.my.lake.connection.ssl.enabled": "false",
    }
    for bucket, texts in {"lake": ("c", "d"), "sea": ("a", "b")}.items():
        keys = s3_options(options, {}, bucket).keys
        assert keys is not None
        assert keys.texts == texts
    assert s3_options(options, {}, "my.lake").endpoint == "http://all.example.org"
    assert s3_options(options, {}, "lake").endpoint == "https://all.example.org"


def test_requests_carry_the_encryption_and_the_payer(s3: S3Server) -> None:
    path = f"s3://{s3.new_bucket()}/t/f"
    heads: list[dict[str, str]] = []
    s3.heads = heads
    settings = {
        "s3.encryption.algorithm": "SSE-KMS",
        "s3.encryption.key": "arn:aws:kms:eu-west-1:1:key/2",
        "s3.requester.pays.enabled": "true",
    }
    io = file_io_of(path, s3.options | settings)[1]
    io.write_bytes(path, b"1")
    assert io.create_if_absent(path + "2", b"1")
    for head in heads[:2]:
        assert head["HTTP_X_AMZ_SERVER_SIDE_ENCRYPTION"] == "aws:kms"
        assert head["HTTP_X_AMZ_SERVER_SIDE_ENCRYPTION_AWS_KMS_KEY_ID"].endswith("key/2")
        assert head["HTTP_X_AMZ_REQUEST_PAYER"] == "requester"


def test_an_error_of_the_system_keeps_its_number(s3: S3Server) -> None:
    s3.error = (403, "AccessDenied")
    with pytest.raises(PermissionError) as caught:
        file_io_of("s3://b/t", s3.options)[1].read_bytes("s3://b/t/f")
    assert caught.value.errno == errno.EACCES
    assert caught.value.filename == "s3://b/t/f"
