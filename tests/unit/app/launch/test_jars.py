"""The launcher resolves each set of jars once, and says what a folder of jars lacks."""

from __future__ import annotations

import multiprocessing
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from stream_app.app.launch import jars
from stream_app.app.launch.jar_sets import JarSet, MavenCoordinate, s3a_set, spark_kafka_set
from stream_app.app.launch.jars import JarCache
from stream_app.errors import StreamAppError, UsageError

PAIR = JarSet(
    name="pair-1",
    coordinates=(MavenCoordinate("o", "a", "1"), MavenCoordinate("o", "b", "1")),
)


def fake_java(folder: Path, script: str) -> Path:
    """A `java` that stands for Ivy; $STAGED is where it is asked to put the jars."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        "#!/bin/bash\n"
        'echo run >> "$JAVA_HOME/runs"\n'
        'while [ $# -gt 0 ]; do [ "$1" = -retrieve ] && STAGED=$(dirname "$2")\n'
        '  [ "$1" = -ivy ] && IVY=$2; shift; done\n' + script
    )
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    return folder


@pytest.fixture
def cache(tmp_path: Path) -> JarCache:
    return JarCache(tmp_path / "jar folder")


def runs(home: Path) -> int:
    return (home / "runs").read_text().count("run") if (home / "runs").exists() else 0


GOOD = 'mkdir -p "$STAGED"; touch "$STAGED/a-1.jar" "$STAGED/b-1.jar" "$STAGED/dep-9.jar"\n'


def test_jars_are_resolved_once(
    cache: JarCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = fake_java(tmp_path / "home", GOOD)
    monkeypatch.setenv("JAVA_HOME", str(home))
    first = cache.resolve(PAIR)
    assert [jar.name for jar in first] == ["a-1.jar", "b-1.jar", "dep-9.jar"]
    assert all(jar.is_file() and jar.is_absolute() for jar in first)
    assert cache.resolve(PAIR) == first
    assert runs(home) == 1
    file_names = sorted(path.name for path in cache.folder.iterdir())
    assert file_names == [".lock", "pair-1"], "nothing else stays behind"


def test_a_set_that_lost_a_jar_is_resolved_anew(
    cache: JarCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = fake_java(tmp_path / "home", GOOD)
    monkeypatch.setenv("JAVA_HOME", str(home))
    cache.resolve(PAIR)[2].unlink()
    assert cache.find(PAIR) == []
    assert len(cache.resolve(PAIR)) == 3
    assert runs(home) == 2


def test_jars_put_there_by_hand_are_taken(cache: JarCache) -> None:
    folder = cache.folder / PAIR.name
    folder.mkdir(parents=True)
    (folder / "a-1.jar").touch()
    assert cache.find(PAIR) == []
    (folder / "b-1.jar").touch()
    assert [jar.name for jar in cache.find(PAIR)] == ["a-1.jar", "b-1.jar"]


def test_a_failure_says_what_is_missing_and_how_to_mend_it(
    cache: JarCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = (
        "for i in $(seq 30); do echo noise $i; done\n"
        "echo '::::::::'; echo ':: o#a;1: not found'; exit 1\n"
    )
    home = fake_java(tmp_path / "home", script)
    monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(StreamAppError) as caught:
        cache.resolve(PAIR)
    text = str(caught.value)
    assert text.startswith("cannot resolve o:a:1\n")
    assert ":: o#a;1: not found" in text
    assert "noise 30" in text
    assert "noise 9\n" not in text
    assert f"put the jars (a-1.jar, b-1.jar) into {cache.folder / 'pair-1'}" in text
    assert "STREAM_APP_IVY_SETTINGS" in text
    assert runs(home) == 1
    assert not (cache.folder / "pair-1").exists()


def test_a_missing_ivy_settings_file_is_named(
    cache: JarCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "home", GOOD)))
    monkeypatch.setenv("STREAM_APP_IVY_SETTINGS", str(tmp_path / "none.xml"))
    with pytest.raises(UsageError, match=r"none\.xml"):
        cache.resolve(PAIR)


def test_a_set_that_names_every_jar_needs_no_pom(
    cache: JarCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = 'cp "$IVY" "$(dirname "$IVY")/ivysettings.xml" "$JAVA_HOME"\n'
    home = fake_java(tmp_path / "home", GOOD + keep)
    monkeypatch.setenv("JAVA_HOME", str(home))
    for jar_set, poms, conf in (
        (PAIR, "true", "default->master"),
        (replace(PAIR, name="pair-2", names_every_jar=True), "false", "default->default"),
    ):
        cache.resolve(jar_set)
        assert f'usepoms="{poms}"' in (home / "ivysettings.xml").read_text()
        assert (home / "ivy.xml").read_text().count(f'conf="{conf}"') == 2


def test_a_missing_java_is_named(cache: JarCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(StreamAppError, match=r"no 'java' in JAVA_HOME \(/nowhere\)"):
        cache.resolve(PAIR)


def test_two_processes_resolve_once(
    cache: JarCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = fake_java(tmp_path / "home", "sleep 0.3\n" + GOOD)
    monkeypatch.setenv("JAVA_HOME", str(home))
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=cache.resolve, args=(PAIR,)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0]
    assert runs(home) == 1


@pytest.mark.parametrize(
    ("version", "revisions"),
    [
        pytest.param("4.1.3", ["4.1.3", "4.1.0-preview1"], id="tested-release"),
        pytest.param("4.1.4", ["4.1.3", "4.1.0-preview1"], id="newer"),
        pytest.param("4.2.0", ["4.2.0", "4.1.0-preview1"], id="next-minor"),
        pytest.param("4.9.0", ["4.9.0", "4.9.0"], id="unknown-minor"),
    ],
)
def test_kafka_modules_have_the_version_of_spark(version: str, revisions: list[str]) -> None:
    source, provider, *_ = spark_kafka_set(version).coordinates
    assert [source.revision, provider.revision] == revisions


def test_the_variable_chooses_the_folder_of_jars(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("STREAM_APP_JARS", str(tmp_path / "j"))
    assert jars.jar_folder() == tmp_path / "j"
    monkeypatch.delenv("STREAM_APP_JARS")
    assert jars.jar_folder() == Path(__file__).parents[4] / ".jars"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    site_packages = tmp_path / "site-packages"
    assert jars.jar_folder(site_packages) == tmp_path / "x" / "stream_app" / "jars"


def test_an_unknown_set_prints_the_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert jars.main(["spark-kafka", "nonsense"]) == 2
    assert "spark-kafka|s3a" in capsys.readouterr().err


def test_s3a_comes_with_the_sdk_of_its_hadoop_and_without_the_bundle() -> None:
    coordinates = s3a_set("3.4.1").coordinates
    assert [str(coordinate) for coordinate in coordinates] == [
        "org.apache.hadoop:hadoop-aws:3.4.1",
        "software.amazon.awssdk:s3:2.24.6",
        "software.amazon.awssdk:s3-transfer-manager:2.24.6",
        "software.amazon.awssdk:sts:2.24.6",
    ]
