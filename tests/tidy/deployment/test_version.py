"""The version is written in stream_app/version.py; the package, the images and pages derive it."""

from __future__ import annotations

import re
import subprocess
import tomllib

import pytest
import yaml

import stream_app
from stream_app.version import VERSION
from tests.tidy.project_files import ROOT, project_files, text_of

CHART = "docker/helm/stream-app/Chart.yaml"
"""Helm reads a chart's version from no other file; the test below compares it."""
HISTORY = (
    *("CHANGELOG.md", "docs/reference/guarantees.md", "docs/operate/troubleshooting.md"),
    "bench/releases.jsonl",
    "stream_app/checkpoint/job_state.py",
)
"""They speak of a release that was, or read its files, or show a command's output."""


def test_the_package_takes_its_version_from_the_module() -> None:
    assert stream_app.__version__ == VERSION
    project = tomllib.loads(text_of("pyproject.toml"))
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {
        "attr": "stream_app.version.VERSION"
    }


def test_no_other_file_repeats_it() -> None:
    derived_files = [
        name
        for name in project_files()
        if not name.endswith((".png", ".lock", ".gz"))
        and not name.startswith(("tests/", *HISTORY))
        and re.search(rf"(?<![\d.]){re.escape(VERSION)}(?![\d.])", text_of(name))
    ]
    assert derived_files == [CHART, "stream_app/version.py"]
    chart = yaml.safe_load(text_of(CHART))
    assert chart["version"] == chart["appVersion"] == VERSION


def test_the_changelog_and_the_tags_name_the_same_releases() -> None:
    releases = re.findall(r"^## \[(\d[^\]]*)\]", text_of("CHANGELOG.md"), re.MULTILINE)
    assert releases[0] == VERSION
    tag_list = subprocess.run(
        ["git", "tag", "--list", "v*"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    tags = {tag.removeprefix("v") for tag in tag_list.stdout.split()}
    if not tags:
        pytest.skip("an archive or a shallow clone has no tags")
    # A release is tagged behind its commit, so the newest may lack its tag for a moment.
    assert {*releases[1:]} <= tags <= {*releases}
