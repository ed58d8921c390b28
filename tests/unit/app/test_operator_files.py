"""What an operator edits agrees with the code: conf/, docker/ and the broker's settings."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from pkgutil import iter_modules
from xml.etree import ElementTree

import pytest

from stream_app import __version__
from stream_app.app.cli import VERBS, main
from stream_app.app.config.app_config import KEYS, PREFIXES, load_config
from stream_app.app.launch.jar_sets import KAFKA_BROKER_VERSION
from stream_app.app.launch.spark_submit import SCHEDULER
from stream_app.cdc.alike.options import COLUMN_ENCODING
from stream_app.cdc.debezium.options import OPTIONS

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
COMPOSE = (ROOT / "docker" / "compose.yml").read_text()
DOCKERFILE = (ROOT / "docker" / "Dockerfile").read_text()


def test_the_example_is_right_and_shows_every_key(tmp_path: Path) -> None:
    text = (ROOT / "conf" / "orders.toml").read_text()
    assert load_config(ROOT / "conf" / "orders.toml", [], {}).table.path == (
        "./warehouse/shop.db/orders"
    )
    # What is commented out must be right as well.
    everything = re.sub(r'^# (?=["\w][\w."-]* = )', "", text, flags=re.MULTILINE)
    (tmp_path / "all.toml").write_text(everything)
    load_config(tmp_path / "all.toml", [], {})
    shown = set(re.findall(r"^(?:# )?([a-z-]+) = ", text, flags=re.MULTILINE))
    of_one = {key for section, keys in KEYS.items() if section != "sync" for key in keys}
    assert of_one - shown == {"topic-pattern"}
    named = set(re.findall(r'^(?:# )?debezium\."([\w.-]+)" = ', text, flags=re.MULTILINE))
    keys = {option.key for option in OPTIONS} - {COLUMN_ENCODING}
    assert named == keys | {"column.amount.encoding"}


def test_the_example_of_a_database_is_right_and_shows_every_key(tmp_path: Path) -> None:
    text = (ROOT / "conf" / "shop-database.toml").read_text()
    assert load_config(ROOT / "conf" / "shop-database.toml", [], {}).sync is not None
    everything = re.sub(r'^# (?=["\w][\w."-]* = )', "", text, flags=re.MULTILINE)
    (tmp_path / "all.toml").write_text(everything)
    load_config(tmp_path / "all.toml", [], {})
    section = text.partition("[sync]")[2].partition("[stream]")[0]
    shown = set(re.findall(r"^(?:# )?([a-z-]+) = ", section, flags=re.MULTILINE))
    prefixes = {prefix.rstrip(".") for prefix in PREFIXES["sync"]} - {"options", "tables"}
    assert {*KEYS["sync"], *prefixes} - shown == set()


def test_pools_have_what_spark_wants() -> None:
    pools = ElementTree.parse(SCHEDULER).getroot()
    assert {pool.get("name") for pool in pools} == {"ingest", "compaction"}
    for pool in pools:
        assert {part.tag for part in pool} == {"schedulingMode", "weight", "minShare"}


def pins(name: str) -> dict[str, str]:
    """Package → version; each has the hashes of its files."""
    lines = (ROOT / "conf" / name).read_text().splitlines()
    entries = "\n".join(line for line in lines if line and not line.startswith("#"))
    form = r"([\w.-]+)==([\w.]+)(?: ; [^\\]+)? \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n?)+)"
    assert re.sub(form, "", entries) == ""
    return {name.lower().replace("_", "-"): pin for name, pin, _ in re.findall(form, entries)}


def test_locks_hold_what_the_project_asks_for() -> None:
    run, dev = pins("requirements.lock"), pins("requirements-dev.lock")
    assert run.items() <= dev.items()
    asked = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]]
    names = {re.split(r"[<>=!~ \[]", each)[0].lower().replace("_", "-") for each in asked}
    assert names <= dev.keys()


def test_docker_names_what_exists() -> None:
    for source in re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, flags=re.MULTILINE):
        for path in source.split():
            assert (ROOT / path).exists() or path == "README.md", path
    for source in re.findall(r"^ +- (\.\./[^:]+):", COMPOSE, flags=re.MULTILINE):
        assert (ROOT / "docker" / source).is_file(), source
    assert (ROOT / "docker" / "Dockerfile").is_file()


def test_the_image_installs_what_it_copies(tmp_path: Path) -> None:
    """The steps of the Dockerfile up to the package itself, run here."""
    build = DOCKERFILE.partition("AS build")[2].partition("\nFROM ")[0]
    for words in re.findall(r"^COPY (.+)$", build, flags=re.MULTILINE):
        *sources, target = words.split()
        for source in sources:
            there = tmp_path / (source if target == "./" else target)
            there.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, there, dirs_exist_ok=True)
            else:
                shutil.copy2(ROOT / source, there)
    assert "install --no-cache-dir --no-deps --no-build-isolation -e ." in build
    program = "import sys; from setuptools.build_meta import build_editable as b; b(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "wheel")],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (wheel,) = (tmp_path / "wheel").iterdir()
    with zipfile.ZipFile(wheel) as archive:
        (on_path,) = (name for name in archive.namelist() if name.endswith(".pth"))
        folder = archive.read(on_path).decode().strip()
    # Spark looks for modules in the folders of the path, and sees nothing that a finder makes up.
    assert "pyspark_stream_app" in {found.name for found in iter_modules([folder])}
    assert Path(folder) == tmp_path
    assert os.access(tmp_path / "docker" / "job.sh", os.X_OK)


@pytest.mark.parametrize(
    ("words", "ends_with", "code"),
    [("ingest", 2, 0), ("ingest", 1, 1), ("ingest", 0, 0), ("read t", 2, 2)],
)
def test_a_container_rests_when_a_person_is_needed(
    tmp_path: Path, words: str, ends_with: int, code: int
) -> None:
    done = subprocess.run(
        [ROOT / "docker" / "job.sh", *words.split()],
        env=with_a_program(tmp_path, f"exit {ends_with}"), check=False, capture_output=True,
    )  # fmt: skip
    assert done.returncode == code
    assert (b"not started again" in done.stderr) == (code != ends_with)
    assert '"/opt/stream_app/docker/job.sh"' in COMPOSE


def test_a_container_that_is_stopped_waits_for_its_job(tmp_path: Path) -> None:
    program = "trap 'sleep 0.3; echo ended; exit 0' TERM; echo begun; while :; do sleep 0.05; done"
    with subprocess.Popen(
        [ROOT / "docker" / "job.sh", "ingest"],
        env=with_a_program(tmp_path, program), stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        assert process.stdout.readline() == "ended\n"


def with_a_program(folder: Path, body: str) -> dict[str, str]:
    """An environment whose `stream-app` is a script."""
    program = folder / "stream-app"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


def test_docker_agrees_with_the_versions() -> None:
    assert set(re.findall(r"apache/kafka:(\S+)", COMPOSE)) == {KAFKA_BROKER_VERSION}
    assert f"image: stream_app:{__version__}" in COMPOSE
    assert f"stream_app:{__version__} ." in DOCKERFILE
    minor = re.search(r"python:(\d+)\.(\d+)", DOCKERFILE)
    assert minor is not None
    assert (int(minor[1]), int(minor[2])) >= (3, 11)


def test_compose_uses_the_addresses_it_makes() -> None:
    config = load_config(ROOT / "conf" / "orders.toml", [], {})
    assert f"--topic={config.source.topics[0]}" in COMPOSE
    assert "PLAINTEXT://broker:19092" in COMPOSE
    variable = re.search(r"STREAM_APP_SOURCE__BOOTSTRAP_SERVERS: (\S+)", COMPOSE)
    assert variable is not None
    environ = {"STREAM_APP_SOURCE__BOOTSTRAP_SERVERS": variable[1]}
    loaded = load_config(ROOT / "conf" / "orders.toml", [], environ)
    assert loaded.source.bootstrap_servers == "broker:19092"


@pytest.mark.parametrize("key", ["listeners", "log.dirs", "controller.quorum.voters"])
def test_the_brokers_template_leaves_addresses_and_folders_out(key: str) -> None:
    template = (ROOT / "stream_app" / "app" / "demo" / "server.properties").read_text()
    assert not re.search(rf"^(advertised\.)?{re.escape(key)}=", template, flags=re.MULTILINE)


def test_run_sh_is_short_and_knows_its_verbs() -> None:
    text = (ROOT / "run.sh").read_text()
    assert len(text.splitlines()) < 125
    assert text.startswith("#!/usr/bin/env bash\n")
    verbs = set(re.findall(r"^  ([a-z-]+)\)[^#]*# ", text, flags=re.MULTILINE))
    of_developers = [
        "help",
        "setup",
        "test",
        "check",
        "bench",
        "coverage",
        "simulate",
        "soak",
        "docs",
        "proof",
    ]
    assert verbs == {*of_developers, *(verb.name for verb in VERBS)}


def test_run_sh_tells_all_that_there_is_to_inspect(capsys: pytest.CaptureFixture[str]) -> None:
    line = re.search(r"^  inspect\).*\[(.*)\]$", (ROOT / "run.sh").read_text(), flags=re.MULTILINE)
    assert line is not None
    assert main(["inspect", "--help"]) == 0
    told = capsys.readouterr().out.split("what there is to see:")[1].split("examples:")[0]
    assert line[1].split("|") == re.findall(r"^  ([a-z]+) ", told, flags=re.MULTILINE)
