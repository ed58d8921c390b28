"""Chooses by the options of the Spark source what a batch read reads, or refuses them, as text."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_app.errors import StreamAppError
from stream_app.spark.read.scan_choice import batch_choice
from stream_app.spark.read.source_options import read_source_options
from stream_app.table.versions.time_travel import Version
from tests.support.suite.datadriven import Case, files, run_file


def batch(case: Case) -> str:
    """Each line KEY=VALUE."""
    choice = batch_choice(read_source_options(_pairs(case)))
    if isinstance(choice, Version) and choice.is_latest:
        return "the latest version"
    return str(choice)


def _pairs(case: Case) -> dict[str, str]:
    return dict(line.partition("=")[::2] for line in case.input_lines)


COMMANDS = {command.__name__: command for command in (batch,)}


def handle(case: Case) -> str:
    try:
        return COMMANDS[case.command](case)
    except StreamAppError as error:
        return str(error)


@pytest.mark.parametrize("path", files(Path(__file__).parent), ids=lambda path: path.stem)
def test_options_of_the_spark_source_choose_what_is_read(path: Path) -> None:
    run_file(path, handle)
