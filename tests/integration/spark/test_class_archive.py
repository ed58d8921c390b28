"""A run of the job makes the archive of Spark's classes, and the next run loads it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from stream_app.app.launch.class_archive import archive_path, class_archive, create_class_archive
from stream_app.app.launch.jars import spark_home
from stream_app.app.launch.spark_submit import submit_command
from tests.support.engines.fast_jvm import fast_jvm
from tests.support.jobs.ingest_process import IngestProcess, job_conf


@pytest.mark.variant
@pytest.mark.spark
@pytest.mark.slow
def test_the_job_starts_from_the_archive(tmp_path: Path) -> None:
    archive = create_class_archive(spark_home())
    assert class_archive(spark_home()) == archive
    assert f"-XX:SharedArchiveFile={archive}" in " ".join(submit_command("ingest.py", [], {}))
    (tmp_path / "in").mkdir()
    message = {"topic": "t", "partition": 0, "offset": 0, "key": None}
    value = json.dumps({"before": None, "after": {"id": 1, "v": "a"}, "op": "c"})
    (tmp_path / "in" / "a.jsonl").write_text(json.dumps({**message, "value": value}) + "\n")
    classes = tmp_path / "classes.txt"
    job = IngestProcess(
        job_conf(
            tmp_path,
            source={"kind": "files", "path": str(tmp_path / "in")},
            stream={"trigger": "availableNow"},
            spark={
                "spark.driver.extraJavaOptions": f"{fast_jvm()} -Xlog:class+load:file={classes}"
            },
        ),
        tmp_path,
    )
    job.start()
    assert job.finish() == 0, job.log()
    loaded_classes = [
        line for line in classes.read_text().splitlines() if " org.apache.spark." in line
    ]
    archived_count = sum("shared objects file (top)" in line for line in loaded_classes)
    assert archived_count > 0.5 * len(loaded_classes), (archived_count, len(loaded_classes))


def test_without_java_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert class_archive(spark_home()) is None


def test_jars_that_were_installed_again_need_another(tmp_path: Path) -> None:
    """The JVM leaves an archive out whose jars have other times than when it was made."""
    jars = tmp_path / "jars"
    jars.mkdir()
    (jars / "spark-core.jar").touch()
    os.utime(jars / "spark-core.jar", (1, 1_000))
    before = archive_path(tmp_path)
    assert archive_path(tmp_path) == before
    os.utime(jars / "spark-core.jar", (1, 2_000))
    assert archive_path(tmp_path) != before
