"""Loads the job's configuration from a TOML file, the environment and ``--set``.

The verbs of `cli` and the program of `submit` call it. The environment overrides the file, and
``--set KEY=VALUE`` overrides both. In a variable such as ``STREAM_APP_SOURCE__MIN_PARTITIONS`` two
underscores stand for a dot, and one for a hyphen. Nested tables and dotted keys mean the same,
because all keys are flattened to dotted keys. All problems are reported at once, each with its key
and what gave its value. Relative paths are relative to the current directory, like those of
spark-submit.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from stream_app.app.config.config_keys import families_of, keys_of
from stream_app.app.config.expectations_config import ExpectationsConfig
from stream_app.app.config.job_tables.job_tables import JobTables
from stream_app.app.config.job_tables.single_table import SingleTable
from stream_app.app.config.job_tables.whole_database import WholeDatabase
from stream_app.app.config.secrets import HIDDEN, Secrets, is_secret
from stream_app.app.config.settings import read_settings, secret_texts, written_key
from stream_app.app.config.source_clusters import ClusterSetting
from stream_app.app.config.source_config import SourceConfig
from stream_app.app.config.source_problems import source_section_problems
from stream_app.app.config.stream_config import (
    NonInsertRecords,
    StreamConfig,
    with_bad_record_limit,
)
from stream_app.app.config.sync_config import SyncConfig, TableSetting
from stream_app.app.config.table_config import TableConfig
from stream_app.app.config.values import (
    Setting,
    WrongValueError,
    free_text,
)
from stream_app.catalog.catalog_options import catalog_option_problems
from stream_app.errors import UsageError
from stream_app.fileio.store_registry import (
    STORE_OPTIONS,
    check_store_options,
    unknown_store_options,
)
from stream_app.model.near_names import nearest_names, unknown_name
from stream_app.model.schema.data_type import RowType
from stream_app.planning.sync.table_share import TableShare

_SECTIONS = {
    "source": SourceConfig,
    "table": TableConfig,
    "sync": SyncConfig,
    "expectations": ExpectationsConfig,
    "stream": StreamConfig,
}
FREE_SECTIONS = ("catalog", "file-system", "spark")
"""Sections whose keys Paimon's catalogs, the file systems and Spark declare."""
KEYS: Mapping[str, Mapping[str, Callable[[Setting], object]]] = {
    **{name: keys_of(section) for name, section in _SECTIONS.items()},
    **{name: {} for name in FREE_SECTIONS},
}
REMOVED_KEYS = {
    "stream.decode-parallelism": "tasks decode what they read: see source.min-partitions",
    "stream.spark-metrics": "stream.metrics-port serves the job's numbers",
}
KEY_FAMILIES = {name: families_of(section) for name, section in _SECTIONS.items()}
"""Section → prefix of keys → the family of these keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppConfig:
    """The whole configuration. Its `repr` contains no secret.

    Attributes:
        job_tables: the tables of ``[table]`` or ``[sync]``, with ``[source]``, ``[file-system]``,
            ``[catalog]``.
        spark: settings of Spark.
        secrets: texts that no output may contain.
    """

    job_tables: SingleTable | WholeDatabase
    stream: StreamConfig
    spark: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: Secrets = field(default_factory=Secrets, repr=False, compare=False)

    def masked(self) -> dict[str, dict[str, object]]:
        """Return the whole configuration for logs, with secrets hidden."""
        job_tables = self.job_tables
        sections = {
            "catalog": self._without_secrets(job_tables.catalog),
            "file-system": self._without_secrets(job_tables.file_system),
            "spark": self._without_secrets(self.spark),
        }
        for name, section in (
            ("source", job_tables.source),
            (job_tables.section_name, job_tables.section),
            ("expectations", job_tables.expectations),
            ("stream", self.stream),
        ):
            sections[name] = {
                key_field.name: self._plain_value(getattr(section, key_field.name))
                for key_field in fields(section)
                if key_field.metadata
            }
        return sections

    @property
    def source(self) -> SourceConfig:
        """The source of all messages."""
        return self.job_tables.source

    def _without_secrets(self, settings: Mapping[str, object]) -> dict[str, object]:
        return {
            key: HIDDEN if is_secret(key) else self._plain_value(settings[key]) for key in settings
        }

    def _plain_value(self, value: object) -> object:
        if isinstance(value, RowType):
            return ", ".join(f"{column.name} {column.data_type}" for column in value)
        if isinstance(value, str):
            return self.secrets.hide(value)
        if isinstance(value, TableSetting | ClusterSetting):
            return value.value
        if isinstance(value, enum.Enum):
            return value.value
        return self._without_secrets(value) if isinstance(value, Mapping) else value


def load_config(path: Path, overrides: Sequence[str], environ: Mapping[str, str]) -> AppConfig:
    """Read the configuration, apply the overrides, and check the result.

    Args:
        overrides: ``KEY=VALUE`` of each ``--set``, e.g. ``table.options.bucket=8``.
        environ: the process's environment.

    Raises:
        UsageError: the configuration has problems; the error lists all of them.
    """
    problems: list[str] = []
    settings = read_settings(path, overrides, environ, problems)
    values = _convert(settings, problems)
    name = (WholeDatabase if values["sync"] else SingleTable).section_name
    given_keys = set(settings) | _share_warehouse(values["catalog"], name, values[name])
    stream = StreamConfig(**with_bad_record_limit(values["stream"]))
    config = AppConfig(
        job_tables=_job_tables(values, stream),
        stream=stream,
        spark=values["spark"],
        secrets=Secrets(secret_texts(settings, environ)),
    )
    for key, problem in _joint_problems(config, given_keys):
        key_settings = (name for name in settings if f"{name}.".startswith(f"{key}."))
        given_by = next((settings[name].given_by for name in key_settings), str(path))
        problems.append(f"{given_by}: {written_key(key)}: {problem}")
    if problems:
        count_text = f"{len(problems)} problems" if len(problems) > 1 else "a problem"
        lines = "\n".join(f"  - {line}" for line in problems)
        raise UsageError(config.secrets.hide(f"the configuration has {count_text}:\n{lines}"))
    return config


def _job_tables(
    values: Mapping[str, dict[str, Any]], stream: StreamConfig
) -> SingleTable | WholeDatabase:
    job_settings: dict[str, Any] = {
        "source": SourceConfig(**values["source"]),
        "expectations": ExpectationsConfig(**values["expectations"]),
        "checkpoint": stream.checkpoint,
        "file_system": values["file-system"],
        "catalog": values["catalog"],
        "share": TableShare.parse(stream.share or ""),
    }
    if values["sync"]:
        return WholeDatabase(sync=SyncConfig(**values["sync"]), **job_settings)
    return SingleTable(table=TableConfig(**values["table"]), **job_settings)


def _share_warehouse(
    catalog: dict[str, Any], section: str, section_values: dict[str, Any]
) -> set[str]:
    """Give the catalog and the tables' section one warehouse; return the key that was absent."""
    if catalog and "warehouse" in section_values:
        catalog.setdefault("warehouse", section_values["warehouse"])
    elif "warehouse" in catalog:
        section_values["warehouse"] = catalog["warehouse"]
        return {f"{section}.warehouse"}
    return set()


def _convert(settings: Mapping[str, Setting], problems: list[str]) -> dict[str, dict[str, Any]]:
    """Return section → field → value.

    A value that cannot be converted is left out, as a problem.
    """
    values: dict[str, dict[str, Any]] = {section: {} for section in KEYS}
    for full_key, setting in settings.items():
        section, _, key = full_key.partition(".")
        try:
            if section not in KEYS or not key:
                raise WrongValueError(
                    f"must be a table, [{section}]"
                    if section in KEYS
                    else unknown_name("section", section, KEYS)
                )
            _store_setting(values[section], section, key, setting)
        except WrongValueError as problem:
            problems.append(f"{setting.given_by}: {written_key(full_key)}: {problem}")
    return values


def _store_setting(
    section_values: dict[str, Any], section: str, key: str, setting: Setting
) -> None:
    if section in FREE_SECTIONS:
        section_values[key] = free_text(setting)
        return
    for prefix, family in KEY_FAMILIES.get(section, {}).items():
        if key.startswith(prefix):
            name = key.removeprefix(prefix)
            section_values.setdefault(family.name, {})[name] = family.convert(setting, name)
            return
    if (converter := KEYS[section].get(key)) is None:
        raise WrongValueError(_unknown_key(section, key))
    section_values[key.replace("-", "_")] = converter(setting)


def _unknown_key(section: str, key: str) -> str:
    """Return the problem of an unknown key, with the key that was probably meant, or all keys."""
    if replacement := REMOVED_KEYS.get(f"{section}.{key}"):
        return f"was removed: {replacement}"
    names = [*KEYS[section], *(f"{prefix}…" for prefix in KEY_FAMILIES.get(section, {}))]
    suggestion = _suggestion(section, key, names)
    if suggestion is None:
        return f"unknown key {key!r}; known: {', '.join(names)}"
    return f"unknown key {key!r}; did you mean {suggestion!r}?"


def _suggestion(section: str, key: str, names: Sequence[str]) -> str | None:
    """Return the key that was probably meant, in this section or another one; else None."""
    head, dot, rest = key.partition(".")
    heads = [prefix.rstrip(".") for prefix in KEY_FAMILIES.get(section, {})]
    if dot and (near_heads := nearest_names(head, heads)):
        return f"{near_heads[0]}.{rest}"
    nearest_keys = nearest_names(key, names)
    foreign_keys = [
        f"{name}.{key}" for name, keys in KEYS.items() if name != section and key in keys
    ]
    # [sync] and [table] share most names, so a misspelt key of [sync] is hardly one of [table].
    suggestions = (
        [*nearest_keys, *foreign_keys] if section == "sync" else [*foreign_keys, *nearest_keys]
    )
    return next(iter(suggestions), None)


def _joint_problems(config: AppConfig, given_keys: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield (key, problem) for values that contradict each other."""
    yield from source_section_problems(config.job_tables, given_keys)
    yield from config.job_tables.problems(given_keys)
    yield from config.job_tables.expectations.problems()
    job_tables = config.job_tables
    for problem in _file_system_problems(job_tables.file_system, job_tables.section.warehouse):
        yield "file-system", problem
    yield from _catalog_problems(job_tables)
    has_trigger = "stream.trigger" in given_keys and not config.stream.is_available_now
    if config.stream.freshness is not None and has_trigger:
        yield (
            "stream.freshness",
            "decides how long epochs are, and stream.trigger does too: give one of them",
        )
    if "stream.checkpoint" not in given_keys:
        yield "stream.checkpoint", "is missing: the folder that remembers what was read"
    if "stream.quarantine" not in given_keys and config.stream.max_bad_records:
        yield "stream.max-bad-records", "needs stream.quarantine: bad records would be lost"
    if config.stream.webhook_secret is not None and config.stream.webhook_url is None:
        yield "stream.webhook-secret", "needs stream.webhook-url"
    can_quarantine = "stream.quarantine" in given_keys and job_tables.may_lack_keys
    if config.stream.non_insert_records is NonInsertRecords.QUARANTINE and not can_quarantine:
        requirement = "needs stream.quarantine, and is for a table without primary-keys"
        yield "stream.non-insert-records", f"'quarantine' {requirement}"


def _catalog_problems(job_tables: JobTables) -> Iterator[tuple[str, str]]:
    options, section = job_tables.catalog, job_tables.section
    for key, problem in catalog_option_problems(options):
        yield f"catalog.{key}", problem
    warehouse = options.get("warehouse", section.warehouse)
    if options and warehouse != section.warehouse:
        yield (
            f"{job_tables.section_name}.warehouse",
            f"is another than catalog.warehouse, {warehouse!r}: give one",
        )


def _file_system_problems(options: Mapping[str, str], warehouse: str) -> Iterator[str]:
    for key in unknown_store_options(options):
        yield f"unknown key {key!r}; known: {STORE_OPTIONS}"
    try:
        check_store_options(options, warehouse)
    except UsageError as error:
        yield f"{error.problem} ({error.fix})"
