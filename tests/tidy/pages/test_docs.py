"""The documentation agrees with the code."""

from __future__ import annotations

import importlib
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from stream_app.app.cli.verb_list import VERBS
from stream_app.app.config.app_config import load_config
from stream_app.catalog import catalog_options
from stream_app.errors import StreamAppError
from stream_app.message_format_registry import FORMATS
from stream_app.model.options.core_options import OPTIONS
from tests.support.jobs.full_metrics import full_metrics, metrics_of, metrics_page
from tests.support.suite.datadriven import rewriting
from tests.tidy.pages.options_page import (
    meanings,
    options_page,
)
from tests.tidy.project_files import ROOT, modules, project_files, text_of

OPTIONS_PAGE = ROOT / "docs" / "reference" / "options.md"
PAGES = [name for name in project_files() if name.endswith(".md")]
_CONFIGURATION_WORDS = {key.replace(".…", "") for key in meanings()} | {
    "table.options",
    *(f"catalog.{key}" for key in catalog_options.OPTIONS),
}
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)

_DECLARATION = re.compile(r'^([A-Z0-9_]+) = Option\(\s*"([^"]+)"', re.MULTILINE)
_IMPORT = re.compile(r"^from .*? import (\([^)]*\)|.*)$", re.MULTILINE)
_LOADED = re.compile(r'<(?:script|link(?! rel="canonical"))[^>]+(?:src|href)="(https?:[^"]+)"')


def fenced_texts(name: str, language: str) -> list[str]:
    return [text for tag, text in _FENCE.findall(text_of(name)) if tag == language]


def test_the_rooms_of_tests_and_benches_are_on_the_page() -> None:
    page = text_of("docs/develop/testing.md")
    for folder in ("tests/support", "bench"):
        rooms = {Path(name).parts[folder.count("/") + 1] for name in modules(folder)}
        listed_rooms = re.findall(rf"^\| `{folder}/(\w+)` \|", page, flags=re.MULTILINE)
        assert listed_rooms == sorted(room for room in rooms if not room.endswith(".py"))


def test_options_page_is_up_to_date() -> None:
    if rewriting():
        OPTIONS_PAGE.write_text(options_page(), encoding="utf-8")
    assert OPTIONS_PAGE.read_text(encoding="utf-8") == options_page(), "REWRITE=1 writes it again"


def test_every_option_of_a_table_is_acted_on() -> None:
    """Code reads each declared option, or the option allows one value only."""
    declaring = [name for name in modules("stream_app") if name.endswith("_options.py")]
    constants = {
        key: constant for name in declaring for constant, key in _DECLARATION.findall(text_of(name))
    }
    everything = "".join(text_of(name) for name in modules("stream_app"))
    uses = Counter(re.findall(r"[A-Z][A-Z0-9_]+", _IMPORT.sub("", everything)))
    # Whatever names an option beside its declaration reads it.
    assert [
        key
        for key, option in OPTIONS.items()
        if uses[constants[key]] < 2 and f'"{key}"' not in everything and len(option.only) != 1
    ] == []


def test_every_meaning_is_a_sentence() -> None:
    options = [option for declaration in FORMATS.values() for option in declaration.options]
    texts = [*meanings().values(), *(option.meaning for option in options)]
    assert [text for text in texts if not text.endswith(".")] == []


def test_the_tables_of_metrics_are_complete() -> None:
    """Type, labels and unit of each; those of Spark's JVM are compared in test_jvm_metrics."""
    metrics = {metric.name: metric for metric in metrics_page() if not metric.is_of_spark}
    assert metrics == {
        metric.name: metric
        for metric in metrics_of(full_metrics().registry)
        if not metric.name.startswith("process_")
    }


def anchors(name: str) -> set[str]:
    """Names of a page's headings, as they are in links."""
    headings = re.findall(r"^#+ (.+)$", _FENCE.sub("", text_of(name)), flags=re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings
    }


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", _FENCE.sub("", text_of(name))):
        if link.startswith(("https://", "mailto:")):
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / name).parent / path if path else ROOT / name
        if not target.exists() or (anchor and anchor not in anchors(_name_of(target))):
            broken.append(link)
    assert broken == []


def _name_of(path: Path) -> str:
    return str(path.resolve().relative_to(ROOT))


@pytest.mark.parametrize("name", PAGES)
def test_configurations_in_the_text_are_right(name: str, tmp_path: Path) -> None:
    """A whole configuration loads; a part of one is right in the place of the example's."""
    problems = [
        problem for text in fenced_texts(name, "toml") if (problem := _problem(text, tmp_path))
    ]
    assert problems == []


def _problem(text: str, folder: Path) -> str | None:
    """Return the error about a configuration, or about a part of one; None if it is valid."""
    is_whole = "[source]" in text and "[stream]" in text
    path = folder / "job.toml" if is_whole else ROOT / "conf" / "orders.toml"
    if is_whole:
        path.write_text(text, encoding="utf-8")
    environ = dict.fromkeys(re.findall(r"\$\{env:(\w+)\}", text), "its value")
    try:
        load_config(path, [] if is_whole else _overrides(text), environ)
    except StreamAppError as error:
        return f"{text}\n{error}"
    return None


def _overrides(text: str) -> list[str]:
    """``--set`` arguments that say the same as a piece of a configuration."""

    def flat(table: dict[str, object], prefix: str) -> list[str]:
        pairs: list[str] = []
        for key, value in table.items():
            if isinstance(value, dict):
                pairs += flat(value, f"{prefix}{key}.")
            else:
                text = ",".join(value) if isinstance(value, list) else str(value)
                pairs.append(f"{prefix}{key}={text.lower() if value in (True, False) else text}")
        return pairs

    return flat(tomllib.loads(text), "")


@pytest.mark.parametrize("name", PAGES)
def test_names_of_our_code_in_the_text_exist(name: str) -> None:
    """Paths (`table/read/split_read.py`) and names (`table.read.split_read.SplitRead`)."""
    text = text_of(name)
    packages = {Path(module).parts[1] for module in modules("stream_app") if module.count("/") > 1}
    packages.remove("demo")  # `demo.orders` is a table
    missing = []
    for path in set(re.findall(r"`([\w.-]+/[\w./-]*)`", text)):
        top = path.split("/")[0]
        if path.endswith(".java"):
            continue  # Paimon's
        if top in packages or (ROOT / top).exists():
            place = ROOT / "stream_app" if top in packages else ROOT
            missing += [] if (place / path).exists() else [path]
    for dotted_name in set(re.findall(r"`((?:\w+\.)+\w+)(?:\(\))?`", text)):
        words = dotted_name.removeprefix("stream_app.").split(".")
        # Keys of the configuration begin with table and spark too.
        is_key = f"{words[0]}.{words[1]}" in _CONFIGURATION_WORDS if len(words) > 1 else True
        if (
            words[0] in packages
            and not is_key
            and not (words[0] == "spark" and "_" not in words[1])
        ):
            missing += [] if _resolves(dotted_name) else [dotted_name]
    assert sorted(missing) == []


def _resolves(dotted_name: str) -> bool:
    parts = ["stream_app", *dotted_name.removeprefix("stream_app.").split(".")]
    for length in range(len(parts), 0, -1):
        try:
            value: object = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        return all((value := getattr(value, part, None)) is not None for part in parts[length:])
    return False


@pytest.mark.parametrize("name", PAGES)
def test_commands_in_the_text_are_verbs_of_run_sh(name: str) -> None:
    verbs = set(re.findall(r"^  ([a-z-]+)\)[^#]*# ", text_of("run.sh"), flags=re.MULTILINE))
    verbs |= {verb.name for verb in VERBS}
    for line in re.findall(r"\./run\.sh [^\n`#]*", text_of(name)):
        words = shlex.split(line.replace("…", ""))
        assert len(words) == 1 or words[1] in {*verbs, "VERB", "CMD", "--help"}, line
        if len(words) > 2 and words[1] == "test" and not words[2].startswith(("-", "[")):
            assert words[2] == "quick" or (ROOT / "tests" / words[2]).is_dir(), line


@pytest.mark.slow
def test_the_site_is_built_and_needs_nothing_from_elsewhere(tmp_path: Path) -> None:
    """Every page is in the navigation, every link and every name of the API resolves."""
    site = tmp_path / "site"
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    assert built.returncode == 0, built.stderr
    assert "not included in the" not in built.stderr
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 25
    assert [
        f"{page.name}: {url}"
        for page in pages
        for url in re.findall(
            r'<(?:script|link)[^>]+(?:src|href)="(https?:[^"]+)"', page.read_text()
        )
    ] == []
    assert "open_table" in (site / "read" / "api.html").read_text()
