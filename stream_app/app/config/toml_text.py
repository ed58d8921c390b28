"""Writes the configuration as lines of TOML, by the keys of a configuration file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from stream_app.app.config.app_config import FREE_SECTIONS, KEYS, PREFIXES, AppConfig
from stream_app.app.config.values import milliseconds
from stream_app.app.text.listing import age_text
from stream_app.message_formats import FORMATS


def toml_settings(config: AppConfig) -> Mapping[str, Mapping[str, str]]:
    """Section → key → the value as TOML, with secrets hidden; unset keys are left out."""
    sections = {
        name: dict(_lines(config, name, settings)) for name, settings in config.masked().items()
    }
    return {name: lines for name, lines in sections.items() if lines}


def _lines(
    config: AppConfig, section: str, settings: Mapping[str, object]
) -> Iterator[tuple[str, str]]:
    for name, value in settings.items():
        if (section, name) == ("source", "merge_shards") and config.sync is not None:
            continue  # a job of one table has this key; this job has its own in [sync]
        if isinstance(value, Mapping):
            begin = _prefix(config, section, name)
            yield from ((f"{begin}{key}", _toml(one)) for key, one in value.items())
        elif value not in (None, "", ()):
            is_free = section in FREE_SECTIONS
            key = json.dumps(name) if is_free else name.replace("_", "-")
            is_duration = not is_free and KEYS[section].get(key) is milliseconds
            yield key, _toml(_duration(value) if is_duration else value)


def _prefix(config: AppConfig, section: str, name: str) -> str:
    """The prefix of a mapping's keys."""
    if name == "format_options":
        return f"{FORMATS[config.source.format].section}."
    return next(prefix for prefix, field in PREFIXES[section].items() if field == name)


def _duration(millis: object) -> str:
    assert isinstance(millis, int), "durations are kept as milliseconds"
    whole = age_text(millis // 1000)
    return whole if millis % 1000 == 0 and whole.count(" ") == 1 else f"{millis} ms"


def _toml(value: object) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)
