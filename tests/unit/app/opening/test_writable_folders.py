"""A job finds at its start that it cannot write, and so does the doctor."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from stream_app.app.config.app_config import load_config
from stream_app.app.opening.job_folder_access import check_folders_writable
from stream_app.app.ops.doctor.observation import Severity
from stream_app.clock import SystemClock
from stream_app.errors import FAILED, OPERATOR_NEEDED, StorageError
from tests.support.files.small_disk import make_read_only, small_disk
from tests.support.jobs.examined_job import examination_of
from tests.support.jobs.ingest_process import write_conf

__all__ = ["small_disk"]


def test_folders_that_are_not_there_are_not_made(tmp_path: Path) -> None:
    check_folders_writable(
        f"{tmp_path}/a/b/c", "", f"file:{tmp_path}/d", "s3://bucket/x", "gs://bucket/x"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("part", ["warehouse", "checkpoint", "quarantine"])
def test_a_read_only_disk(small_disk: Path, tmp_path: Path, part: str) -> None:
    (small_disk / "ods.db").mkdir()
    make_read_only(small_disk)
    with pytest.raises(StorageError, match="Read-only file system") as caught:
        check_folders_writable(str(tmp_path), f"{small_disk}/ods.db/orders")
    assert caught.value.exit_code == OPERATOR_NEEDED
    assert str(small_disk) in str(caught.value)
    folders = {name: str(tmp_path / name) for name in ("warehouse", "checkpoint", "quarantine")}
    folders[part] = str(small_disk)
    conf = write_conf(
        tmp_path / "job.toml",
        source={"bootstrap-servers": "127.0.0.1:1", "topics": ["orders"]},
        sync={"warehouse": folders["warehouse"], "database": "ods"},
        stream={"checkpoint": folders["checkpoint"], "quarantine": folders["quarantine"]},
    )
    observations = examination_of(load_config(conf, [], {}), SystemClock()).observations()
    problems = {
        observation.subject
        for observation in observations
        if observation.severity is Severity.PROBLEM
    }
    assert problems - {"java"} == {part, "broker"}


def test_a_full_disk(small_disk: Path) -> None:
    filler = small_disk / "filler"
    subprocess.run(["dd", "if=/dev/zero", f"of={filler}"], capture_output=True, check=False)
    with pytest.raises(StorageError, match="No space left") as caught:
        check_folders_writable(str(small_disk))
    assert caught.value.exit_code == FAILED, "it may pass"
