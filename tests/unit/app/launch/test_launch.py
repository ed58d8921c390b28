"""The launcher chooses the place of Spark's log, and the encoding by which Java reads names."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_app.app.launch.java import unicode_environment
from stream_app.app.launch.spark_log import log_file


@pytest.mark.parametrize(
    ("environ", "path"),
    [
        ({"STREAM_APP_SPARK_LOG": "/x/y.log"}, "/x/y.log"),
        ({"STREAM_APP_SPARK_LOG": "-"}, None),
        # CRC-32 of the text "a checkpoint", by gzip.
        ({"XDG_STATE_HOME": "/s"}, "/s/stream_app/ingest-shop.a-b-a234f617.log"),
    ],
)
def test_sparks_log_has_a_place(environ: dict[str, str], path: str | None) -> None:
    log = log_file(environ, "ingest-shop.a/b", "a checkpoint")
    assert log == (None if path is None else Path(path))


def test_two_jobs_of_one_name_have_logs_of_their_own() -> None:
    environ = {"XDG_STATE_HOME": "/s"}
    logs = {
        log_file(environ, "ingest-shop", folder) for folder in ("/a/checkpoint", "/b/checkpoint")
    }
    assert len(logs) == 2


@pytest.mark.parametrize(
    ("environ", "is_changed"),
    [
        ({}, True),
        ({"LC_ALL": "C", "LANG": "en_US.UTF-8"}, True),
        ({"LC_CTYPE": "C.UTF-8"}, False),
        ({"LANG": "de_DE.utf8"}, False),
        ({"LC_ALL": "", "LANG": "de_DE.UTF-8"}, False),
        ({"LANG": "POSIX"}, True),
    ],
)
def test_java_reads_names_as_unicode(environ: dict[str, str], is_changed: bool) -> None:
    environment = unicode_environment(environ)
    assert environment == ({**environ, "LC_ALL": "C.UTF-8"} if is_changed else environ)
