"""An operator's files agree with the code: conf/, docker/ and the broker's settings."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest

from stream_app.app.cli.verb_list import VERBS
from stream_app.app.config.app_config import KEY_FAMILIES, KEYS, load_config
from stream_app.app.launch.spark_submit import SCHEDULER
from stream_app.cdc.debezium.debezium_options import OPTIONS
from stream_app.cdc.json_records.json_options import COLUMN_ENCODING

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_example_is_right_and_shows_every_key(tmp_path: Path) -> None:
    text = (ROOT / "conf" / "orders.toml").read_text()
    assert load_config(ROOT / "conf" / "orders.toml", [], {}).job_tables.location == (
        "./warehouse/shop.db/orders"
    )
    # What is commented out must be right as well.
    everything = re.sub(r'^# (?=["\w][\w."-]* = |\[)', "", text, flags=re.MULTILINE)
    (tmp_path / "all.toml").write_text(everything)
    load_config(tmp_path / "all.toml", [], {})
    shown = set(re.findall(r"^(?:# )?([a-z-]+) = ", text, flags=re.MULTILINE))
    of_one = {key for section, keys in KEYS.items() if section != "sync" for key in keys}
    assert of_one - shown == {
        "topic-pattern",
        "starting-timestamp",
        "starting-offsets-by-timestamp",
        "snapshot-from",  # instead of starting-offsets, and the others only beside it
        "snapshot-password",
        "snapshot-table",
        "snapshot-rows",
        "freshness",  # instead of trigger
        "share",  # of a database's tables: the other example shows it
    }
    named_keys = set(re.findall(r'^(?:# )?debezium\."([\w.-]+)" = ', text, flags=re.MULTILINE))
    keys = {option.key for option in OPTIONS} - {COLUMN_ENCODING}
    assert named_keys == keys | {"column.amount.encoding"}


def test_the_example_of_a_database_is_right_and_shows_every_key(tmp_path: Path) -> None:
    text = (ROOT / "conf" / "shop-database.toml").read_text()
    assert load_config(ROOT / "conf" / "shop-database.toml", [], {}).job_tables.separates_tables
    everything = re.sub(r'^# (?=["\w][\w."-]* = |\[)', "", text, flags=re.MULTILINE)
    (tmp_path / "all.toml").write_text(everything)
    load_config(tmp_path / "all.toml", [], {})
    assert '# share = "3/8"' in text
    section = text.partition("[sync]")[2].partition("[stream]")[0]
    shown = set(re.findall(r"^(?:# )?([a-z-]+) = ", section, flags=re.MULTILINE))
    prefixes = {prefix.rstrip(".") for prefix in KEY_FAMILIES["sync"]} - {"options", "tables"}
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
    requirements = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]]
    names = {re.split(r"[<>=!~ \[]", name)[0].lower().replace("_", "-") for name in requirements}
    assert names <= dev.keys()


@pytest.mark.slow
def test_locks_are_complete() -> None:
    """pip installs them without a look at dependencies; this environment is so installed."""
    pip_check = [sys.executable, "-m", "pip", "check"]
    result = subprocess.run(pip_check, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout
    assert '--no-deps "${@/#/-r}"' in (ROOT / "run.sh").read_text()


@pytest.mark.parametrize("key", ["listeners", "log.dirs", "controller.quorum.voters"])
def test_the_brokers_template_leaves_addresses_and_folders_out(key: str) -> None:
    template = (ROOT / "stream_app" / "app" / "launch" / "server.properties").read_text()
    assert not re.search(rf"^(advertised\.)?{re.escape(key)}=", template, flags=re.MULTILINE)


def test_run_sh_is_short_and_knows_its_verbs() -> None:
    text = (ROOT / "run.sh").read_text()
    assert len(text.splitlines()) <= 125
    assert text.startswith("#!/usr/bin/env bash\n")
    of_developers = set(re.findall(r"^  ([a-z-]+)\)[^#]*# ", text, flags=re.MULTILINE))
    # `check` is both: of a table, and without one of the code.
    assert of_developers & {verb.name for verb in VERBS} == {"check"}


def test_the_help_of_run_sh_lists_each_verb_before_anything_is_installed(tmp_path: Path) -> None:
    help_run = subprocess.run(
        [ROOT / "run.sh", "help"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "STREAM_APP_VENV": str(tmp_path / "none")},
    ).stdout
    assert not (tmp_path / "none").exists()
    for verb in VERBS:
        assert f"\n  {verb.name:19} {verb.summary}\n" in help_run


def test_the_readme_has_each_verb_and_no_other() -> None:
    """The first column of its table of commands has the verbs."""
    section = (ROOT / "README.md").read_text().partition("## Commands")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`([a-z-]+)`", row)} == {
        verb.name for verb in VERBS
    }
