"""Selects the part of a job's configuration that pages show or need; prints its keys as TOML.

`app.submit.job_settings` calls it for the page of a running job, and
`app.cli.arguments.shown_site` for ``stream-app web``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from stream_app.app.config.app_config import FREE_SECTIONS, KEY_FAMILIES, KEYS, AppConfig
from stream_app.app.config.job_tables.single_table import SingleTable
from stream_app.app.config.job_tables.whole_database import WholeDatabase
from stream_app.app.config.secrets import Secrets
from stream_app.app.config.values import milliseconds
from stream_app.app.text.listing import age_text
from stream_app.message_format_registry import FORMATS


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownJob:
    """The parts of a job's configuration that pages show.

    Attributes:
        quarantine: the folder of the job's bad records, or None.
        max_staleness_s: seconds without success after which the job is not healthy.
        spark_settings: Spark's settings, for compactions that a page starts.
        settings: section → key → the value as TOML, with secrets hidden.
        secrets: texts that no page may show.
    """

    job_tables: SingleTable | WholeDatabase
    quarantine: str | None
    max_staleness_s: int
    spark_settings: Mapping[str, str] = field(repr=False)
    settings: Mapping[str, Mapping[str, str]]
    secrets: Secrets = field(repr=False)


def shown_job(config: AppConfig) -> ShownJob:
    """Return the part of the configuration that pages show or need."""
    return ShownJob(
        job_tables=config.job_tables,
        quarantine=config.stream.quarantine,
        max_staleness_s=config.stream.max_staleness // 1000,
        spark_settings=config.spark,
        settings=toml_settings(config),
        secrets=config.secrets,
    )


def toml_settings(config: AppConfig) -> Mapping[str, Mapping[str, str]]:
    """Return section → key → TOML value, with secrets hidden and unset keys left out."""
    format_section = FORMATS[config.source.format].section
    sections = {
        name: dict(_lines(format_section, name, settings))
        for name, settings in config.masked().items()
    }
    for key in config.job_tables.replaced_keys:
        sections["source"].pop(key, None)
    return {name: lines for name, lines in sections.items() if lines}


def _lines(
    format_section: str, section: str, settings: Mapping[str, object]
) -> Iterator[tuple[str, str]]:
    """Yield (key, TOML value) for a section. `format_section` has its options."""
    for name, value in settings.items():
        prefix = _prefix(format_section, section, name)
        if prefix is not None and isinstance(value, Mapping):
            yield from ((f"{prefix}{key}", _toml(member)) for key, member in value.items())
        elif value not in (None, "", ()):
            is_free = section in FREE_SECTIONS
            key = json.dumps(name) if is_free else name.replace("_", "-")
            is_duration = not is_free and KEYS[section].get(key) is milliseconds
            yield key, _toml(_duration(value) if is_duration else value)


def _prefix(format_section: str, section: str, name: str) -> str | None:
    """Return the key prefix of a family of options, or None if the field holds one value."""
    if name == "format_options":
        return f"{format_section}."
    families = KEY_FAMILIES.get(section, {})
    return next((prefix for prefix, family in families.items() if family.name == name), None)


def _duration(ms: object) -> str:
    assert isinstance(ms, int), "durations are kept as milliseconds"
    seconds_text = age_text(ms // 1000)
    return seconds_text if ms % 1000 == 0 and seconds_text.count(" ") == 1 else f"{ms} ms"


def _toml(value: object) -> str:
    if isinstance(value, Mapping):  # the configuration file also has JSON in a text here
        value = json.dumps(value)
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)
