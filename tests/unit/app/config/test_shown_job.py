"""A user can copy the text on the page of settings into a configuration."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from stream_app.app.config.app_config import load_config
from stream_app.app.config.shown_job import toml_settings

_CONF = Path(__file__).parents[4] / "conf"


@pytest.mark.parametrize("name", ["orders", "shop-database"])
def test_the_text_is_a_configuration_that_means_the_same(name: str, tmp_path: Path) -> None:
    overrides = [
        "stream.max-staleness=90 s",
        "stream.web-port=8088",
        "spark.spark.speculation=true",
    ]
    overrides += ["spark.spark.speculation.quantile=0.9"]
    config = load_config(_CONF / f"{name}.toml", overrides, {})
    copied_file = tmp_path / "copied.toml"
    with copied_file.open("w") as file:
        for section, lines in toml_settings(config).items():
            file.write("".join([f"[{section}]\n", *(f"{k} = {v}\n" for k, v in lines.items())]))
    assert load_config(copied_file, [], {}) == config
    assert 'max-staleness = "90000 ms"' in copied_file.read_text()


def test_times_of_topics_are_one_value(tmp_path: Path) -> None:
    conf = tmp_path / "orders.toml"
    lines = (_CONF / "orders.toml").read_text().splitlines(keepends=True)
    conf.write_text("".join(line for line in lines if not line.startswith("starting-offsets")))
    times = '{"orders": {"0": 1764230400000}}'
    config = load_config(conf, [f"source.starting-offsets-by-timestamp={times}"], {})
    shown = toml_settings(config)["source"]["starting-offsets-by-timestamp"]
    again = tomllib.loads(f"times = {shown}")["times"]
    assert load_config(conf, [f"source.starting-offsets-by-timestamp={again}"], {}) == config
