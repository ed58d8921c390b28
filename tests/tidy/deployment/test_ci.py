"""CI, the devcontainer and pre-commit call existing commands, for the promised versions."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from stream_app.app.cli import verb_list
from stream_app.spark.driver.supported_versions import SUPPORTED_VERSIONS, minor_of
from tests.tidy.project_files import ROOT, project_files, text_of

PROJECT = tomllib.loads(text_of("pyproject.toml"))["project"]
OF_DEVELOPERS = set(re.findall(r"^  ([a-z-]+)\)", text_of("run.sh"), re.MULTILINE))
VERBS = OF_DEVELOPERS | {verb.name for verb in verb_list.VERBS}
WORKFLOWS = [name for name in project_files() if name.startswith(".github/workflows/")]
VERSION = r"\d+\.\d+"


def jobs() -> dict[str, Any]:
    return {
        f"{name} {job}": steps
        for name in WORKFLOWS
        for job, steps in yaml.safe_load(text_of(name))["jobs"].items()
    }


def commands() -> Iterator[tuple[str, str]]:
    for place, job in jobs().items():
        yield from ((place, step["run"]) for step in job["steps"] if "run" in step)
    yield (
        ".devcontainer",
        json.loads(text_of(".devcontainer/devcontainer.json"))["postCreateCommand"],
    )
    for repository in yaml.safe_load(text_of(".pre-commit-config.yaml"))["repos"]:
        yield from ((".pre-commit", hook["entry"]) for hook in repository["hooks"])
    yield ".ci/run", re.findall(r"\./run\.sh [^<\n]+", text_of(".ci/run"))[0]


@pytest.mark.parametrize(("place", "command"), sorted(set(commands())))
def test_each_command_is_there(place: str, command: str) -> None:
    program, *words = command.split()
    assert program in (".ci/run", ".ci/image", "./run.sh")
    assert (ROOT / program).stat().st_mode & 0o111, f"{program} cannot be run"
    if program == "./run.sh":
        assert words[0] in VERBS
    if words[:1] == ["test"] and words[1:]:
        assert words[1] == "quick" or (ROOT / "tests" / words[1]).is_dir()


def pythons() -> set[str]:
    classifiers = " ".join(PROJECT["classifiers"])
    return set(re.findall(rf"Python :: ({VERSION})", classifiers))


def test_all_versions_of_python_are_tried_the_oldest_first() -> None:
    tried_versions = set()
    for job in jobs().values():
        tried_versions |= set(job.get("strategy", {}).get("matrix", {}).get("python", ()))
    assert tried_versions == pythons()
    oldest = min(pythons(), key=lambda text: int(text.split(".")[1]))
    assert PROJECT["requires-python"] == f">={oldest}"
    assert f"python:{oldest}-" in text_of(".devcontainer/devcontainer.json")
    whole = [job for job in jobs().values() if {"run": ".ci/run"} in job["steps"]]
    assert f"'python-version': '{oldest}'" in str(whole)


def test_the_pinned_spark_is_tried_with_each_python_and_so_is_each_supported_one() -> None:
    [pinned_version] = re.findall(
        r"^pyspark==(\S+)", text_of("conf/requirements.lock"), re.MULTILINE
    )
    [(least, end)] = re.findall(rf"pyspark>=({VERSION})\S*,<({VERSION})", str(PROJECT))
    sparks = {
        version
        for job in jobs().values()
        for version in job.get("strategy", {}).get("matrix", {}).get("spark", ())
    }
    assert pinned_version in sparks
    assert {minor_of(version) for version in sparks} == set(SUPPORTED_VERSIONS)
    assert all(least <= minor_of(version) < end for version in sparks)
