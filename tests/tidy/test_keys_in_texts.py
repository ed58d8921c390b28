"""A text that a job of a whole database can print names no key of a job of one table.

Keys of a table stand in ``[table]``, or in ``[sync]`` and ``[sync.tables.NAME]``. What is below the
configuration knows neither, and says the key alone. An option of a table that a text names is one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from stream_app.app.config.app_config import KEYS as SECTIONS
from stream_app.model.options.core_options import OPTIONS, unknown_options
from tests.tidy.project_files import ROOT, nodes_of

KEYS = "|".join(sorted((*SECTIONS["table"], "options"), key=len, reverse=True))
OF_ONE_TABLE = re.compile(rf"\[table\]|\btable\.({KEYS})\b|(?<![\w./])options\.([a-z]|$)")
KNOW_THE_FORM = (
    # They judge or write [table] itself.
    "app/config/table_config.py", "app/config/app_config.py", "app/config/sync_problems.py",
    "app/config/sync_config.py", "app/ops/written_configuration.py",
    "app/launch/class_archive.py",
)  # fmt: skip
OTHERS_KEYS = {"file", "log", "source", "write"}
"""Parts before a dot that keys of jobs, Kafka and Iceberg, and attributes of files have too."""
PARTS = "|".join({key.partition(".")[0] for key in OPTIONS if "." in key} - OTHERS_KEYS)
OPTION = re.compile(rf"(?<![\w./-])(?:{PARTS})\.[a-z0-9][a-z0-9.-]*[a-z0-9](?![\w])")
NAME_OTHERS = (
    "kafka/client_options.py",
    "options/iceberg_options.py",
    "options/paimon_option_keys.py",
)
DEBEZIUM = {"snapshot.mode"}


def texts(module: Path) -> Iterator[str]:
    """The texts of a module that are not docstrings."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    alone = {id(node.value) for node in nodes_of(tree) if isinstance(node, ast.Expr)}
    for node in nodes_of(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield node.value


def test_no_text_names_a_key_of_table() -> None:
    package = ROOT / "stream_app"
    offenders = [
        f"{module.relative_to(package)}: {text[:80]!r}"
        for module in sorted(package.rglob("*.py"))
        if not str(module.relative_to(package)).endswith(KNOW_THE_FORM)
        for text in texts(module)
        if OF_ONE_TABLE.search(text)
    ]
    assert not offenders, "\n".join(offenders)


def test_an_option_that_a_text_names_exists() -> None:
    package = ROOT / "stream_app"
    offenders = [
        f"{module.relative_to(package)}: {key}"
        for module in sorted(package.rglob("*.py"))
        if not str(module).endswith(NAME_OTHERS)
        for text in texts(module)
        for key in OPTION.findall(text)
        if unknown_options({key: ""}) and key not in DEBEZIUM
    ]
    assert not offenders, "\n".join(offenders)
    assert OPTION.findall("set snapshot.num-retained-min") == ["snapshot.num-retained-min"]
    assert unknown_options({"snapshot.num-retained-min": ""})


def test_the_pattern_finds_them() -> None:
    assert OF_ONE_TABLE.search("use table.primary-keys")
    assert OF_ONE_TABLE.search("fix the [table] section")
    assert OF_ONE_TABLE.search("set options.partition-lookup = true")
    assert not OF_ONE_TABLE.search("sync.options.bucket, stream_app.table.api, chain-table.enabled")
