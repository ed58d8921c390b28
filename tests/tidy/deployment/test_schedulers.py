"""The texts for Airflow and dbt in deployment.md agree with the code.

The tests install neither: the page says with which versions its texts were tried by hand.
"""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from pathlib import Path

import yaml

from stream_app.app.cli.verb_list import VERBS
from stream_app.app.inspect.table_status import TableStatus

PAGE = (Path(__file__).parents[3] / "docs" / "operate" / "deployment.md").read_text(
    encoding="utf-8"
)


def blocks(heading: str, language: str) -> list[str]:
    """The blocks of a language in a section of the page."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(rf"^```{language}\n(.*?)^```", section, flags=re.DOTALL | re.MULTILINE)


def test_the_dag_asks_for_verbs_and_values_that_there_are() -> None:
    [dag] = blocks("On Airflow", "python")
    ast.parse(dag)
    assert set(re.findall(r'= stream_app\("(.*?)"', dag)) <= {verb.name for verb in VERBS}
    status = {column.name for column in fields(TableStatus)}
    assert set(re.findall(r'table\["(.*?)"\]', dag)) == {"fresh_s", "state"} <= status


def test_dbts_files_name_the_plugin() -> None:
    [plugin] = blocks("With dbt", "python")
    ast.parse(plugin)
    profiles, sources = map(yaml.safe_load, blocks("With dbt", "yaml"))
    [plugin_entry] = profiles["lake"]["outputs"]["dev"]["plugins"]
    assert f"`{plugin_entry['module']}.py`" in PAGE
    assert {source["config"]["meta"]["plugin"] for source in sources["sources"]} == {
        plugin_entry["module"]
    }
    assert set(plugin_entry["config"]) == set(re.findall(r'config\["(.*?)"\]', plugin))
