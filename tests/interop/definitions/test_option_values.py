"""Java and PyPaimon can read each table whose options stream_app stores."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from stream_app.model.options.core_options import option_problems
from tests.support.judges.paimon_java import PaimonError, PaimonJava
from tests.support.judges.pypaimon_reader import PyPaimonError, PyPaimonReader
from tests.support.tables.small_table import small_table

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]

CLOSING = [
    ("commit.strict-mode.last-safe-snapshot", "-7"),
    ("consumer-id", ""),
    ("data-file.external-paths.weights", "v"),
    ("data-file.external-paths.weights", "2,0"),
    ("data-file.path-directory", ""),
    ("global-index.external-path", "folder"),
    ("metadata.stats-mode.per.level", "full"),
    ("metastore.tag-to-partition.preview", "always"),
    ("page-size", "0"),
    ("read.batch-size", "-7"),
    ("read.parallelism", "0"),
    ("record-level.time-field", ""),
    ("rowkind.field", ""),
    ("scan.mode", "yesterday"),
    ("scan.timestamp", "yesterday"),
    ("scan.timestamp", "2026-02-30"),
    ("scan.timestamp", "2100-01-31"),
    ("scan.tag-name", "no-such-tag"),
    ("scan.version", "no-such-tag"),
]
OPEN = [
    ("consumer-id", "me"),
    ("data-file.external-paths.weights", "2, 1"),
    ("global-index.external-path", "file:/tmp/index"),
    ("metadata.stats-mode.per.level", "0:none,5:full"),
    ("metastore.tag-to-partition.preview", "process-time"),
    ("page-size", "32 kb"),
    ("read.batch-size", "10"),
    ("scan.mode", "latest"),
    ("sort-engine", "min-heap"),
    ("scan.timestamp", "2100-01-31 12:00:00.123"),
]


def refusals(java: PaimonJava, pypaimon: PyPaimonReader, path: Path) -> list[str]:
    """The readers and writers that refuse the table."""
    refused_values = []
    uses: dict[str, Callable[[], object]] = {
        "java reads": lambda: java.read(path),
        "java writes": lambda: java.write(path, [("+I", {"k": 2, "v": "b"})], identifier=7),
        "pypaimon reads": lambda: pypaimon.read(path),
    }
    for name, use in uses.items():
        try:
            use()
        except (PaimonError, PyPaimonError):
            refused_values.append(name)
    return refused_values


def table_with(path: Path, key: str, value: str) -> None:
    """The option is put past our own check."""
    small_table(path, "k INT, v STRING", ("k",)).commit(("+I", {"k": 1, "v": "a"}))
    schema = path / "schema" / "schema-0"
    content = json.loads(schema.read_text())
    del content["stream_app.digest"]
    content["options"][key] = value
    schema.write_text(json.dumps(content))


@pytest.mark.parametrize(("key", "value"), CLOSING)
def test_a_value_that_closes_the_table_is_refused(
    paimon_java: PaimonJava, pypaimon: PyPaimonReader, tmp_path: Path, key: str, value: str
) -> None:
    path = tmp_path / "db.db" / "t"
    table_with(path, key, value)
    assert refusals(paimon_java, pypaimon, path) != []
    assert option_problems({key: value}) != []


@pytest.mark.parametrize(("key", "value"), OPEN)
def test_a_value_that_all_engines_read_is_accepted(
    paimon_java: PaimonJava, pypaimon: PyPaimonReader, tmp_path: Path, key: str, value: str
) -> None:
    path = tmp_path / "db.db" / "t"
    assert option_problems({key: value}) == []
    table_with(path, key, value)
    assert refusals(paimon_java, pypaimon, path) == []
