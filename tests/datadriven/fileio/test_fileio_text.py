"""Translates errors of a store's client into errors of stream_app, as text."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_app.fileio.s3.s3_errors import explain_s3_error
from stream_app.version import install_command
from tests.support.suite.datadriven import Case, files, run_file

HERE = Path(__file__).parent


@pytest.mark.parametrize("path", files(HERE), ids=lambda path: path.stem)
def test_answers_of_a_store_are_explained(path: Path) -> None:
    def handle(case: Case) -> str:
        assert case.command == "said"
        explanation = explain_s3_error(case.input)
        kinds = {"keys": explanation.is_about_keys, "over": explanation.may_be_expired}
        lines = [explanation.problem, *(name for name, holds in kinds.items() if holds)]
        fix = explanation.fix.replace(install_command("aws"), "INSTALL aws")
        return "\n".join([*lines, f"to fix: {fix}"] if fix else lines)

    run_file(path, handle)
