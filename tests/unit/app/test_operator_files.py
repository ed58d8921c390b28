"""What an operator edits agrees with the code: conf/, docker/ and the broker's settings."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest

from stream_app import __version__
from stream_app.app.cli import VERBS, main
from stream_app.app.config import KEYS, load_config
from stream_app.app.embedded_broker import main as run_broker
from stream_app.app.jar_sets import KAFKA_BROKER_VERSION

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
    assert {key for keys in KEYS.values() for key in keys} - shown == {"topic-pattern"}


def test_pools_have_what_spark_wants() -> None:
    pools = ElementTree.parse(ROOT / "conf" / "fairscheduler.xml").getroot()
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
    template = (ROOT / "stream_app" / "app" / "server.properties").read_text()
    assert not re.search(rf"^(advertised\.)?{re.escape(key)}=", template, flags=re.MULTILINE)


def test_run_sh_is_short_and_knows_its_verbs() -> None:
    text = (ROOT / "run.sh").read_text()
    assert len(text.splitlines()) < 120
    assert text.startswith("#!/usr/bin/env bash\n")
    verbs = set(re.findall(r"^  ([a-z-]+)\)[^#]*# ", text, flags=re.MULTILINE))
    of_developers = [
        "help",
        "setup",
        "test",
        "check",
        "bench",
        "broker",
        "simulate",
        "soak",
        "docs",
    ]
    assert verbs == {*of_developers, *(verb.name for verb in VERBS)}


def test_run_sh_tells_all_that_there_is_to_inspect(capsys: pytest.CaptureFixture[str]) -> None:
    line = re.search(r"^  inspect\).*\[(.*)\]$", (ROOT / "run.sh").read_text(), flags=re.MULTILINE)
    assert line is not None
    assert main(["inspect", "--help"]) == 0
    told = capsys.readouterr().out.split("what there is to see:")[1].split("examples:")[0]
    assert line[1].split("|") == re.findall(r"^  ([a-z]+) ", told, flags=re.MULTILINE)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--help"], 0, "usage: ./run.sh broker [-h] DIR [PORT]"),
        ([], 2, "the following arguments are required: DIR"),
        (["x", "http"], 2, "argument PORT: invalid int value"),
    ],
)
def test_the_broker_for_trials_tells_its_arguments(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        run_broker(arguments)
    assert ended.value.code == code
    told = capsys.readouterr()
    assert said in told.out + told.err
