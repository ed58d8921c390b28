"""Alert rules and the dashboard ask for numbers that are there; promtool judges the rules."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from tests.support.jobs.full_metrics import full_metrics, metrics_of, metrics_page
from tests.tidy.project_files import ROOT, text_of

RULES = ROOT / "docker" / "prometheus" / "rules" / "stream-app.yaml"
CASES = ROOT / "tests" / "unit" / "app" / "observe" / "alerts_test.yaml"
DASHBOARD = ROOT / "docker" / "grafana" / "dashboards" / "stream-app.json"
ALERTS: list[dict[str, Any]] = yaml.safe_load(RULES.read_text())["groups"][0]["rules"]
_PROMTOOL = shutil.which("promtool")
with_promtool = pytest.mark.skipif(_PROMTOOL is None, reason="there is no promtool here")
_NO_METRICS = {"up"}


def labels_of_metrics() -> dict[str, frozenset[str]]:
    """Name as in a query → labels; from the endpoint itself, and of the JVM from its tables."""
    metrics = {metric.name: metric.labels for metric in metrics_of(full_metrics().registry)}
    metrics |= {metric.name: metric.labels for metric in metrics_page() if metric.is_of_spark}
    kinds = {metric.name: metric.kind for metric in metrics_page()}
    for name in [name for name in metrics if kinds.get(name) == "histogram"]:
        of_one = metrics.pop(name)
        metrics |= {f"{name}_{part}": of_one | {"le"} for part in ("bucket", "sum", "count")}
    return metrics


def queried_metrics(expression: str) -> Iterator[tuple[str, set[str]]]:
    """The metrics of a query, each with the labels of its matchers."""
    plain = re.sub(r'"[^"]*"', '""', expression)
    for name, matchers in re.findall(r"\b((?:stream_app|process)_\w+)(\{[^}]*\})?", plain):
        yield name, set(re.findall(r"(\w+)=~?", matchers))


def grouping_labels(expression: str) -> set[str]:
    """The labels by which a query adds up."""
    return {
        label
        for labels in re.findall(r"\b(?:by|on|ignoring|without) \(([^)]*)\)", expression)
        for label in re.split(r", *", labels)
    }


def check_query(expression: str, metrics: Mapping[str, frozenset[str]]) -> None:
    names = list(queried_metrics(expression))
    assert names or _NO_METRICS & set(re.findall(r"\w+", expression)), expression
    allowed_labels = {"instance", "job", "namespace", "pod"}
    for name, labels in names:
        assert name in metrics, f"{name} is not a metric: {expression}"
        assert labels <= metrics[name] | allowed_labels, expression
        allowed_labels |= metrics[name]
    assert grouping_labels(expression) <= allowed_labels, expression


def dashboard_queries() -> Iterator[tuple[str, str]]:
    """Expression and legend of each line."""
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"], target["legendFormat"]


def test_alerts_ask_for_what_is_there() -> None:
    metrics = labels_of_metrics()
    for alert in ALERTS:
        check_query(alert["expr"], metrics)


def test_the_dashboard_asks_for_what_is_there() -> None:
    metrics = labels_of_metrics()
    for expression, legend in dashboard_queries():
        check_query(expression, metrics)
        labels = set(re.findall(r"\{\{(\w+)\}\}", legend))
        allowed_labels = {"instance"}.union(
            *(metrics[name] for name, _ in queried_metrics(expression))
        )
        assert labels <= allowed_labels, legend


def test_the_dashboard_shows_each_panel_once_and_side_by_side() -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    earlier_cells: set[tuple[int, int]] = set()
    for panel in panels:
        grid = panel["gridPos"]
        cells = {
            (column, line)
            for column in range(grid["x"], grid["x"] + grid["w"])
            for line in range(grid["y"], grid["y"] + grid["h"])
        }
        assert not cells & earlier_cells, panel["title"]
        assert grid["x"] + grid["w"] <= 24
        earlier_cells |= cells
        if panel["type"] != "row":
            references = [target["refId"] for target in panel["targets"]]
            assert len(set(references)) == len(references)


def test_each_alert_has_a_page_that_names_it_and_a_case() -> None:
    pages = set()
    for alert in ALERTS:
        page = alert["annotations"]["runbook_url"]
        assert f"Alert `{alert['alert']}` ({alert['labels']['severity']})" in text_of(page)
        assert f"runbook/{page.rpartition('/')[2]}" in text_of("mkdocs.yml")
        assert f"[`{alert['alert']}`](../runbook/" in text_of("docs/operate/monitoring.md")
        pages.add(page)
    assert pages == {f"docs/runbook/{path.name}" for path in (ROOT / "docs/runbook").iterdir()}
    cases = yaml.safe_load(CASES.read_text())["tests"]
    assert [f"StreamApp{case['name']}" for case in cases] == [alert["alert"] for alert in ALERTS]


@with_promtool
def test_promtool_finds_the_rules_right() -> None:
    assert _PROMTOOL is not None
    subprocess.run([_PROMTOOL, "check", "rules", str(RULES)], check=True, timeout=120)


@pytest.mark.slow
@with_promtool
def test_each_alert_fires_when_it_should() -> None:
    assert _PROMTOOL is not None
    result = subprocess.run(
        [_PROMTOOL, "test", "rules", str(CASES)],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stdout + result.stderr


@with_promtool
def test_promtool_reads_each_query_of_the_dashboard(tmp_path: Any) -> None:
    assert _PROMTOOL is not None
    rules = [
        {"record": f"panel:{number}", "expr": expression.replace("$__rate_interval", "1m")}
        for number, (expression, _) in enumerate(dashboard_queries())
    ]
    path = tmp_path / "queries.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    result = subprocess.run(
        [_PROMTOOL, "check", "rules", str(path)],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stdout + result.stderr
