"""The session chooses Spark's settings before its JVM starts. Integration tests cover the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_app.spark.driver.session import STACK, THROUGHPUT_OPTIONS, launch_settings


def test_a_local_driver_stays_on_loopback() -> None:
    launch = launch_settings({})
    assert launch["spark.master"] == "local[*,4]"
    assert launch["spark.driver.host"] == launch["spark.driver.bindAddress"] == "127.0.0.1"
    cluster = launch_settings({"spark.master": "spark://h:7077"})
    assert cluster["spark.master"] == "spark://h:7077"
    assert "spark.driver.host" not in cluster


@pytest.mark.parametrize(
    ("configured_master", "master"),
    [
        ("local", "local[1,4]"),
        ("local[2]", "local[2,4]"),
        ("local[*]", "local[*,4]"),
        ("local[2,1]", "local[2,1]"),
        ("local-cluster[2,1,1024]", "local-cluster[2,1,1024]"),
    ],
)
def test_a_local_task_is_tried_as_often_as_one_on_a_cluster(
    configured_master: str, master: str
) -> None:
    assert launch_settings({"spark.master": configured_master})["spark.master"] == master
    tries = {"spark.master": configured_master, "spark.task.maxFailures": "7"}
    assert launch_settings(tries)["spark.master"] == master.replace(",4]", ",7]")


def test_what_a_running_jvm_cannot_take_is_said_at_its_start_and_the_user_wins() -> None:
    settings = {
        "spark.driver.host": "h",
        "spark.driver.memory": "3g",
        "spark.driver.extraJavaOptions": "-Xss1g",
        "spark.jars": "mine.jar",
        "spark.sql.session.timeZone": "UTC",
    }
    launch = launch_settings(settings, jars=[Path("/j/a.jar"), Path("/j/b.jar")])
    assert launch["spark.driver.host"] == "h"
    assert launch["spark.driver.memory"] == "3g"
    assert launch["spark.jars"] == "mine.jar"
    options = " ".join((STACK, *THROUGHPUT_OPTIONS, "-Xss1g"))
    assert launch["spark.driver.extraJavaOptions"] == options, "the last one counts"
    assert "spark.sql.session.timeZone" not in launch


def test_files_are_named_as_their_readers_read_them() -> None:
    launch = launch_settings(
        {},
        jars=[Path("/j/a.jar"), Path("/j/b.jar")],
        log4j=Path("/with space/log4j2.properties"),
        scheduler=Path("/with space/fair.xml"),
    )
    assert launch["spark.jars"] == "/j/a.jar,/j/b.jar"
    assert launch["spark.scheduler.allocation.file"] == "file:/with space/fair.xml"
    assert launch["spark.driver.extraJavaOptions"] == (
        f"{STACK} -Dlog4j2.configurationFile=file:///with%20space/log4j2.properties "
        + " ".join(THROUGHPUT_OPTIONS)
    )


def test_a_collector_of_the_users_takes_the_place_of_ours() -> None:
    """Java refuses to start with two."""
    for key, master in (("driver", "local[2]"), ("executor", "yarn")):
        option = f"spark.{key}.extraJavaOptions"
        launch = launch_settings({"spark.master": master, option: "-Da=b -XX:+UseZGC"})
        assert launch[option].endswith(" -Da=b -XX:+UseZGC")
        assert launch[option].count("GC") == 1
    assert "spark.executor.extraJavaOptions" not in launch_settings({})
