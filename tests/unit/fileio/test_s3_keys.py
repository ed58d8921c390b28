"""The client of S3 follows keys that change in files, profiles and roles."""

from __future__ import annotations

import json
import pickle
import stat
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
import pytest

from stream_app.clock import Clock, SystemClock
from stream_app.errors import UsageError
from stream_app.fileio.file_io import FileIO
from stream_app.fileio.s3.s3_file_io import S3FileIO
from stream_app.fileio.s3.s3_keys import KeyFileSource, KeyProvider, S3Keys
from stream_app.fileio.s3.s3_options import s3_options
from stream_app.fileio.setting_references import MissingValueError
from stream_app.fileio.store_registry import file_io_of
from tests.support.servers.s3_server import S3Server

ROLE_VARIABLES = ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")


@dataclass
class Waiting(Clock):
    """Time that passes by waiting alone."""

    seconds: float = 0
    waits: list[float] = field(default_factory=list)

    def now_ms(self) -> int:
        return SystemClock().now_ms()

    def steady_seconds(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        self.waits.append(seconds)
        SystemClock().sleep(min(seconds, 0.15))  # obstore asks no more often than each 0.1 s


@pytest.fixture(autouse=True)
def nothing_from_elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", *ROLE_VARIABLES):
        monkeypatch.delenv(name, raising=False)


def write_keys(folder: Path, number: int) -> None:
    for name in ("access", "secret", "token"):
        (folder / name).write_text(f"{name}-key-{number}\n")


@pytest.fixture
def options(s3: S3Server, path: str, tmp_path: Path) -> dict[str, str]:
    """Return options of a store that accepts the first keys alone; files have the keys."""
    write_keys(tmp_path, 1)
    s3.valid_keys = frozenset({"access-key-1"})
    return {
        "s3.endpoint": s3.endpoint,
        "s3.access-key": f"${{file:{tmp_path}/access}}",
        "s3.secret-key": f"${{file:{tmp_path}/secret}}",
        "s3.session.token": f"${{file:{tmp_path}/token}}",
    }


def rotate(s3: S3Server, folder: Path, number: int = 2) -> None:
    write_keys(folder, number)
    s3.valid_keys = frozenset({f"access-key-{number}"})


@pytest.fixture
def path(s3: S3Server) -> str:
    return f"s3://{s3.new_bucket()}/t/f"


def test_a_file_that_is_written_anew_is_read_anew(
    s3: S3Server, options: dict[str, str], path: str, tmp_path: Path
) -> None:
    io = file_io_of(path, options)[1]
    io.write_bytes(path, b"x" * 3_000_000)
    source = io.open_input(path)
    rotate(s3, tmp_path)
    assert source.read(10) == b"x" * 10, "an open file goes on"
    assert io.create_if_absent(path + "2", b"1")
    assert not io.create_if_absent(path + "2", b"1")
    assert sorted(io.list_names(path.rpartition("/")[0])) == ["f", "f2"]
    io.delete(path)
    assert not io.exists(path)


def test_a_file_that_is_being_written_goes_on_with_new_keys(
    s3: S3Server, options: dict[str, str], path: str, tmp_path: Path
) -> None:
    clock = Waiting()
    io = S3FileIO(s3_options(options, {}), clock=clock)
    sink = io.open_output(path)
    for number in range(5):
        sink.write(b"x" * (8 << 20))
        if number == 2:
            SystemClock().sleep(0.3)  # parts are sent behind
            rotate(s3, tmp_path)
            clock.seconds += 60
    sink.close()
    assert io.size(path) == 40 << 20


@pytest.mark.slow
def test_keys_that_come_late_are_waited_for(
    s3: S3Server, options: dict[str, str], path: str, tmp_path: Path
) -> None:
    @dataclass
    class Late(Waiting):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            if len(self.waits) == 3:
                write_keys(tmp_path, 2)

    clock = Late()
    io = S3FileIO(s3_options(options, {}), clock=clock)
    io.write_bytes(path, b"1")
    s3.valid_keys = frozenset({"access-key-2"})
    assert io.read_bytes(path) == b"1"
    assert clock.waits == [0.2, 1.0, 2.0, 4.0]
    # Retries end, and a key that has never worked gets none.
    s3.valid_keys = frozenset()
    with pytest.raises(OSError, match="ExpiredToken") as caught:
        io.read_bytes(path)
    assert "files that are rewritten" in caught.value.__notes__[0]
    assert "key-2" not in str(caught.value)
    clock.waits.clear()
    with pytest.raises(OSError, match="ExpiredToken"):
        S3FileIO(s3_options(options, {}), clock=clock).read_bytes(path)
    assert clock.waits == []


@pytest.mark.slow
def test_tasks_have_the_drivers_keys_and_look_themselves_where_they_can(
    s3: S3Server, options: dict[str, str], path: str, tmp_path: Path
) -> None:
    driver = file_io_of(path, options)[1]
    driver.write_bytes(path, b"1")
    rotate(s3, tmp_path)
    in_task: FileIO = pickle.loads(pickle.dumps(driver))
    assert in_task.read_bytes(path) == b"1", "keys of the past, and the files of this machine"
    driver.read_bytes(path)
    shipped_bytes = pickle.dumps(driver)
    for name in ("access", "secret", "token"):
        (tmp_path / name).unlink()
    elsewhere: S3FileIO = pickle.loads(shipped_bytes)
    assert elsewhere.read_bytes(path) == b"1", "keys of the driver, and no files here"
    s3.valid_keys = frozenset()
    expired_io = S3FileIO(elsewhere.options, True, Waiting())
    with pytest.raises(OSError, match=r"ExpiredToken.*could not be renewed.*access.*No such file"):
        expired_io.read_bytes(path)


def test_keys_of_two_times_are_not_mixed(tmp_path: Path) -> None:
    write_keys(tmp_path, 1)

    class Slow(KeyFileSource):
        def _read(self) -> S3Keys:
            keys = super()._read()
            if keys.texts[0] == "access-key-1":
                write_keys(tmp_path, 2)
                return S3Keys(access_key="access-key-1", secret_key="secret-key-2")
            return keys

    names = {"access_key": "access", "secret_key": "secret", "session_token": "token"}
    files = {name: f"${{file:{tmp_path}/{file}}}" for name, file in names.items()}
    assert Slow(**files).keys().texts == ("access-key-2", "secret-key-2", "token-key-2")


def test_keys_that_could_not_stand_in_a_request_are_refused(tmp_path: Path) -> None:
    for odd in ("hush hush", "hush\n", "hüsh", "hush\x00"):
        with pytest.raises(UsageError, match="secret-key holds a blank") as caught:
            s3_options({"s3.access-key": "k", "s3.secret-key": odd}, {})
        assert odd not in str(caught.value)
    (tmp_path / "odd").write_text("a b")
    file = f"${{file:{tmp_path}/odd}}"
    keys = KeyProvider(None, KeyFileSource(access_key=file, secret_key="s"), SystemClock())
    with pytest.raises(MissingValueError, match=r"s3\.access-key holds a blank"):
        keys()


def test_a_token_of_a_variable_is_not_sent_beside_keys_of_options(
    s3: S3Server, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """obstore reads AWS's variables by itself, and so the executors' as well."""
    monkeypatch.setenv("AWS_SESSION_TOKEN", "another-ones")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    keys = file_io_of(path, s3.options)[1]
    assert isinstance(keys, S3FileIO)
    keys.write_bytes(path, b"1")
    assert s3.tokens_seen == {None}


PROCESS = """#!/bin/sh
cat {folder}/answer.json
"""


def test_a_profile_gives_keys_region_and_endpoint(
    s3: S3Server, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = tmp_path / "process.sh"
    process.write_text(PROCESS.format(folder=tmp_path))
    process.chmod(process.stat().st_mode | stat.S_IXUSR)
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(
        "[default]\naws_access_key_id = access-key-1\naws_secret_access_key = s1\n"
        "[lake]\naws_access_key_id = access-key-3\naws_secret_access_key = s3\n"
    )
    (tmp_path / ".aws" / "config").write_text(
        f"[default]\nregion = eu-west-3\nendpoint_url = {s3.endpoint}\n"
        f"[profile tool]\nendpoint_url = {s3.endpoint}\ncredential_process = {process}\n"
    )
    s3.valid_keys = frozenset({"access-key-1"})
    io = file_io_of(path, {})[1]
    assert isinstance(io, S3FileIO)
    assert io.options.region == "eu-west-3"
    io.write_bytes(path, b"1")
    # Another process writes new keys into it.
    credentials = tmp_path / ".aws" / "credentials"
    credentials.write_text(credentials.read_text().replace("access-key-1", "access-key-2"))
    s3.valid_keys = frozenset({"access-key-2"})
    assert io.read_bytes(path) == b"1"

    monkeypatch.setenv("AWS_PROFILE", "lake")
    s3.valid_keys = frozenset({"access-key-3"})
    file_io = file_io_of(path, {"s3.endpoint": s3.endpoint})[1]
    assert pickle.loads(pickle.dumps(file_io)).read_bytes(path) == b"1"

    monkeypatch.setenv("AWS_PROFILE", "tool")
    s3.valid_keys = frozenset({"access-key-4"})
    end = datetime.now(UTC) + timedelta(hours=1)
    answer = {"Version": 1, "AccessKeyId": "access-key-4", "SecretAccessKey": "s4"}
    answer |= {"SessionToken": "t4", "Expiration": end.strftime("%Y-%m-%dT%H:%M:%SZ")}
    (tmp_path / "answer.json").write_text(json.dumps(answer))
    assert file_io_of(path, {})[1].read_bytes(path) == b"1"

    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(PermissionError, match=r"no keys.*nobody.*could not be found"):
        file_io_of(path, {"s3.endpoint": s3.endpoint})[1].read_bytes(path)


def test_keys_beat_a_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    variables = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_PROFILE": "nobody"}
    assert s3_options({}, variables).keys == S3Keys(access_key="k", secret_key="s")
    settings = {"s3.access-key": "k", "s3.secret-key": "s"}
    assert s3_options(settings, {"AWS_PROFILE": "nobody"}).source is None


class Container:
    """A server that gives a container's role its keys: others each time, which end soon."""

    def __init__(self) -> None:
        container = self
        self.requests = 0

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                container.requests += 1
                end = datetime.now(UTC) + timedelta(minutes=4)
                answer = {
                    "AccessKeyId": f"access-key-{container.requests}",
                    "SecretAccessKey": "s",
                    "Token": "t",
                    "Expiration": end.strftime("%Y-%m-%dT%H:%M:%SZ"),
                }
                self.send_response(200)
                self.end_headers()
                self.wfile.write(json.dumps(answer).encode())

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def container() -> Iterator[Container]:
    container = Container()
    yield container
    container.server.shutdown()
    container.server.server_close()


def test_a_containers_role_gives_keys_and_new_ones_before_they_end(
    s3: S3Server,
    path: str,
    container: Container,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "token").write_text("of the container")
    port = container.server.server_address[1]
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"http://127.0.0.1:{port}/keys")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(tmp_path / "token"))
    io = file_io_of(path, {"s3.endpoint": s3.endpoint})[1]
    s3.valid_keys = frozenset({"access-key-1"})
    io.write_bytes(path, b"1")
    s3.valid_keys = frozenset({"access-key-2"})
    SystemClock().sleep(0.2)
    assert io.read_bytes(path) == b"1"


def test_files_are_not_read_for_each_request(tmp_path: Path) -> None:
    write_keys(tmp_path, 1)
    clock = Waiting()
    files = KeyFileSource(access_key=f"${{file:{tmp_path}/access}}", secret_key="s")
    keys = KeyProvider(None, files, clock)
    assert keys()["access_key_id"] == "access-key-1"
    write_keys(tmp_path, 2)
    assert keys()["access_key_id"] == "access-key-1"
    clock.seconds += files.age_max_s + 1
    assert keys()["access_key_id"] == "access-key-2"
    assert {"access-key-1", "access-key-2", "s"} == set(keys.secrets())


def test_parquet_shows_the_stores_words(s3: S3Server, path: str) -> None:
    """An error comes through Arrow as it was raised."""
    io = file_io_of(path, s3.options)[1]
    io.write_bytes(path, b"x" * 3_000_000)
    source = io.open_input(path)
    s3.error = (403, "AccessDenied")
    with pytest.raises(PermissionError, match="AccessDenied") as caught:
        source.read(10)
    assert "s3:GetObject" in caught.value.__notes__[0]
    with pytest.raises(PermissionError), io.open_output(path + "3") as sink:
        sink.write(pa.py_buffer(b"1"))
