"""Reads configurations, and compares their values, or all of their problems."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stream_app.app.config.app_config import AppConfig, load_config
from stream_app.errors import UsageError
from tests.support.suite.datadriven import Case, files, run_file

HERE = Path(__file__).parent


@pytest.mark.parametrize("path", files(HERE), ids=lambda path: path.stem)
def test_configurations_give_their_values_or_problems(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # `base` sets the file that the following cases continue from: the file, or overrides of it.
    monkeypatch.chdir(tmp_path)
    base = ""

    def handle(case: Case) -> str:
        nonlocal base
        if case.command == "base":
            base = case.input
        elif case.command == "secret-file":
            Path("secret.txt").write_text(case.input + "\n")
            return ""
        elif case.command == "file":
            return load(case.input, [], {})
        elif case.command == "set":
            return load(base, list(case.input_lines), {}, only=case.args.get("show", ""))
        elif case.command == "environment":
            pairs = [line.partition("=")[::2] for line in case.input_lines if line[:6] != "--set "]
            overrides = [line[6:] for line in case.input_lines if line[:6] == "--set "]
            return load(base, overrides, dict(pairs), only=case.args.get("show", ""))
        elif case.command == "add":
            return load(base + "\n" + case.input, [], {}, only=case.args.get("show", ""))
        else:
            raise AssertionError(f"no such command: {case.command}")
        return load(base, [], {}, only=case.args.get("show", ""))

    run_file(path, handle)


def load(text: str, overrides: list[str], environ: dict[str, str], *, only: str = "") -> str:
    Path("job.toml").write_text(text)
    try:
        config = load_config(Path("job.toml"), overrides, environ)
    except UsageError as error:
        return str(error)
    return show(config, only.split(",") if only else [])


def show(config: AppConfig, only: list[str]) -> str:
    lines = []
    for section, pairs in config.masked().items():
        for key, value in pairs.items():
            name = f"{section}.{key}"
            if only and not any(name.startswith(prefix) for prefix in only):
                continue
            lines.append(f"{name} = {json.dumps(value)}")
    return "\n".join(lines)
