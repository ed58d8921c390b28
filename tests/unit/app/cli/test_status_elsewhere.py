"""A verb names the folders that it searched, because relative paths depend on its own folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_app.app.cli.main import main
from stream_app.errors import FAILED, OPERATOR_NEEDED
from tests.support.jobs.database_job import DatabaseJob
from tests.support.jobs.ingest_process import write_conf
from tests.support.messages.database_topic import creates

VERBS = {"status": FAILED, "resume": OPERATOR_NEEDED, "check": OPERATOR_NEEDED}


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """Return the configuration of a job that has run in `tmp_path`, by relative paths."""
    DatabaseJob(tmp_path).run(*creates("shop.orders", [1]))
    return write_conf(
        tmp_path / "job.toml",
        source={"bootstrap-servers": "127.0.0.1:1", "topics": ["all"]},
        sync={"warehouse": "warehouse", "database": "ods"},
        stream={"checkpoint": "checkpoint"},
    )


@pytest.mark.parametrize("verb", VERBS)
def test_the_folder_is_named(
    tmp_path: Path,
    conf: Path,
    verb: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert main([verb, "--conf", str(conf)]) == VERBS[verb]
    output = capsys.readouterr().err
    assert f"no job has begun with the checkpoint {elsewhere}/checkpoint" in output
    assert "'checkpoint' is relative: is this the folder where the job runs?" in output
    assert list(elsewhere.iterdir()) == [], "a look makes nothing"


def test_status_and_resume_work_in_the_folder_of_the_job(
    tmp_path: Path, conf: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["status", "--conf", str(conf)]) == 0
    assert "orders" in capsys.readouterr().out
    assert main(["resume", "--conf", str(conf)]) == 0
