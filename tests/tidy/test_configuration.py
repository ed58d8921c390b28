"""The whole configuration stays in few hands, and its two kinds of job are told apart once."""

from __future__ import annotations

import re

import pytest

from stream_app.app.config.app_config import KEYS
from tests.tidy.project_files import modules, text_of

WHOLE = {
    "app/cli/arguments/compact", "app/cli/arguments/configuration", "app/cli/shown_job",
    "app/cli/verbs/ingest", "app/config/app_config", "app/config/toml_text",
    "app/submit/job_parts",
}  # fmt: skip
"""They take it apart; what they call takes the values that it needs. A contract has the rooms."""
PARSING = {"app/config/app_config", "app/config/toml_text"}


def named(pattern: str) -> set[str]:
    return {
        name.removeprefix("stream_app/").removesuffix(".py")
        for name in modules("stream_app")
        if re.search(pattern, text_of(name))
    }


def test_few_modules_hold_the_whole_configuration() -> None:
    assert named(r"\bAppConfig\b") == WHOLE


def test_a_job_of_a_database_is_distinguished_where_the_configuration_is_parsed() -> None:
    assert named(r"\bsync is (?:not )?None\b") - PARSING == set()


@pytest.mark.parametrize(
    "key", [f"{section}.{key}" for section, keys in KEYS.items() for key in keys]
)
def test_each_key_of_the_configuration_is_read(key: str) -> None:
    field = key.rpartition(".")[2].replace("-", "_")
    readers = named(rf"\w\.{field}\b")
    assert readers, "a key that nothing reads is a promise that nothing keeps"
