"""No verb prints a secret, in whichever way it gets the secret."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import stream_app
from stream_app.app.cli.main import main
from stream_app.app.cli.verb_list import VERBS
from stream_app.app.config.secrets import HIDDEN
from stream_app.errors import OPERATOR_NEEDED, StorageError
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import new_table_schema
from stream_app.model.snapshot import SOURCE_END_PROPERTY
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import create_or_open
from tests.support.jobs.table_writer import TableWriter
from tests.support.servers.s3_server import ACCESS_KEY, SECRET_KEY, S3Server
from tests.support.tables.small_table import TIME_MS

TOKEN = "token-of-the-session"
SECRETS = (ACCESS_KEY, SECRET_KEY, TOKEN)
NAMES = ("ACCESS_KEY", "SECRET_KEY", "SESSION__TOKEN")
FILE_SYSTEM = "STREAM_APP_FILE_SYSTEM__S3__"
ARGUMENTS: Mapping[str, list[list[str]]] = {
    "compact": [["--dry-run"]],
    "read": [["--format", "jsonl"], ["--where", f"v = '{TOKEN}'"]],
    "changelog": [["--format", "debezium-json"]],
    "expire-snapshots": [["--retain-max", "1", "--dry-run"], []],
    "expire-partitions": [["--expiration-time", "1d", "--dry-run"]],
    "inspect": [[], ["options"], ["files"], ["manifests"]],
    "check": [
        *([], ["--quick"]),
        ["--source", f"jdbc:postgresql://me:{TOKEN}@127.0.0.1:1/shop"],
    ],
    "backfill": [["--from-topic", "127.0.0.1:1/other", "--dry-run"]],
    "branch": [["list"], ["create", TOKEN], ["delete", TOKEN]],
    "create-tag": [[TOKEN]],
    "delete-tag": [[TOKEN]],
    "rollback-to": [["--snapshot", "1", "--dry-run"]],
    "drop-partition": [[f"p={TOKEN}"]],
    "rescale": [["--buckets", "2"]],
    "truncate": [["--dry-run"], []],
    "alter": [["--comment", TOKEN, "--dry-run"], ["--comment", TOKEN]],
    "remove-orphan-files": [["--dry-run"]],
    "analyze": [[], ["--columns", "k"]],
}


def by_awss_variables(_: Path) -> dict[str, str]:
    return dict(
        zip(
            ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
            SECRETS,
            strict=True,
        )
    )


def by_our_variables(_: Path) -> dict[str, str]:
    return dict(zip((FILE_SYSTEM + name for name in NAMES), SECRETS, strict=True))


def by_other_variables(_: Path) -> dict[str, str]:
    lake_variables = {f"LAKE_{number}": secret for number, secret in enumerate(SECRETS)}
    return lake_variables | {
        FILE_SYSTEM + name: f"${{env:LAKE_{number}}}" for number, name in enumerate(NAMES)
    }


def by_files(folder: Path) -> dict[str, str]:
    for name, secret in zip(NAMES, SECRETS, strict=True):
        (folder / name).write_text(secret + "\n")
    return {FILE_SYSTEM + name: f"${{file:{folder / name}}}" for name in NAMES}


WAYS = [by_awss_variables, by_our_variables, by_other_variables, by_files]


@pytest.fixture(params=WAYS, ids=[way.__name__ for way in WAYS])
def secrets_in_the_environment(
    request: pytest.FixtureRequest, s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(FILE_SYSTEM + "ENDPOINT", s3.endpoint)
    for name, value in request.param(tmp_path).items():
        monkeypatch.setenv(name, value)


def table_on(s3: S3Server) -> FileStoreTable:
    """Its place holds a secret, so that every message about it would tell one."""
    schema = new_table_schema(
        columns=parse_columns("k INT, p STRING, v STRING"),
        primary_keys=("p", "k"),
        partition_keys=("p",),
        options={"bucket": "1"},
        time_ms=TIME_MS,
    )
    location = f"s3://{s3.new_bucket()}/{TOKEN}/db.db/t"
    table = create_or_open(location, schema, file_io_options=s3.options)
    writer = TableWriter(table)
    writer.write([("+I", {"k": 1, "p": "a", "v": "x"})])
    # A job has read a topic of a broker that does not answer.
    end = {SOURCE_END_PROPERTY: '{"other": {"0": 1}}'}
    writer.commit.follow_and_wait()
    writer.commit.commit_epoch(1, [], properties=end)
    return table


# The answer of a store that refuses tells keys, as Amazon's does.
@pytest.mark.parametrize("trouble", [None, (403, "AccessDenied"), "closed"])
@pytest.mark.usefixtures("secrets_in_the_environment")
@pytest.mark.slow
def test_no_verb_reveals_a_secret(
    request: pytest.FixtureRequest,
    s3: S3Server,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    trouble: tuple[int, str] | str | None,
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    location = table_on(s3).location
    if isinstance(trouble, tuple):
        s3.error = trouble
    elif trouble == "closed":
        monkeypatch.setenv(FILE_SYSTEM + "ENDPOINT", "http://127.0.0.1:9")
    of_no_table = {
        *("broker", "demo", "doctor", "ingest", "init", "quarantine", "resume", "status", "top"),
        "web",
    }
    assert {verb.name for verb in VERBS} == {*ARGUMENTS, *of_no_table}
    with caplog.at_level(logging.DEBUG):
        for verb, choices in ARGUMENTS.items():
            if verb == "backfill" and by_files.__name__ not in request.node.name:
                continue  # it waits for its broker half a minute; once is enough
            for words in choices if trouble is None else choices[:1]:
                index = 1 if verb == "branch" else 0  # an action comes first
                code = main([verb, *words[:index], location, *words[index:]])
                shown = capfd.readouterr()
                for secret in SECRETS:
                    assert secret not in shown.out + shown.err, (verb, words)
                assert code != OPERATOR_NEEDED, shown.err
                assert "Traceback" not in shown.err, shown.err
                if trouble is not None:
                    assert code == 1, shown
                    assert f"where: s3://{location[5:].partition('/')[0]}/{HIDDEN}/" in shown.err
                    assert "to fix: " in shown.err


@pytest.mark.parametrize("raised", [RuntimeError, OSError])
@pytest.mark.usefixtures("secrets_in_the_environment")
def test_a_fault_of_ours_reveals_no_secret(
    s3: S3Server,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    raised: Callable[[str], Exception],
) -> None:
    class BrokenOutput(io.BytesIO):
        def write(self, _: object) -> int:
            raise raised(f"with {SECRET_KEY}")

    location = table_on(s3).location
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdout", io.TextIOWrapper(BrokenOutput()))
        assert main(["read", location]) == 1
    shown = capfd.readouterr().err
    assert f"with {HIDDEN}" in shown
    assert SECRET_KEY not in shown


def test_errors_in_python_reveal_no_secret(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    table = stream_app.open_table(table_on(s3).location, file_io_options=s3.options)
    shown = [repr(table), str(table.table), repr(table.table.file_io)]
    for error in ((403, "InvalidAccessKeyId"), (400, "ExpiredToken"), (403, "AccessDenied")):
        s3.error = error
        with pytest.raises(StorageError, match=error[1]) as open_error:
            stream_app.open_table(table.table.location, file_io_options=s3.options)
        with pytest.raises(OSError, match=error[1]) as read_error:
            table.read().read_all()
        for caught in (open_error, read_error):
            shown += [str(caught.value), repr(caught.value), str(caught.getrepr(chain=True))]
    for text in shown:
        assert ACCESS_KEY not in text
        assert SECRET_KEY not in text
