"""Makes docs/reference/options.md from the declarations of keys and options.

Compared with the file by test_docs.py; `REWRITE=1 ./run.sh test tidy` rewrites it.
"""

from __future__ import annotations

import dataclasses
import enum
import re
import textwrap
from collections.abc import Iterable
from typing import Any

from stream_app.app.config.app_config import KEY_FAMILIES, KEYS
from stream_app.app.config.expectations_config import ExpectationsConfig
from stream_app.app.config.source_config import SourceConfig
from stream_app.app.config.stream_config import StreamConfig
from stream_app.app.config.sync_config import SyncConfig
from stream_app.app.config.table_config import TableConfig
from stream_app.catalog.catalog_options import OPTIONS as CATALOG_OPTIONS
from stream_app.cdc.message_format import FormatDeclaration
from stream_app.fileio.store_registry import STORES
from stream_app.message_format_registry import FORMATS
from stream_app.model.options.core_options import OPTIONS
from stream_app.model.options.option import Option
from stream_app.model.options.option_support import IGNORED_KEYS
from stream_app.model.options.store_options import S3_OPTIONS
from stream_app.model.schema.data_type import RowType
from stream_app.model.schema.table_only_options import is_tables_own
from stream_app.spark.read.source_options import SOURCE_OPTIONS
from tests.tidy.pages.option_support_page import (
    HARMLESS,
    HEAD,
    LEFT_UNDONE,
    REFUSED,
    SUPPORT,
    harmless_keys,
    refusals_rows,
)

_SECTIONS: dict[str, type[Any]] = {
    "source": SourceConfig, "table": TableConfig, "sync": SyncConfig,
    "expectations": ExpectationsConfig, "stream": StreamConfig,
}  # fmt: skip
_UNDECLARED = {
    **{f"file-system.{key}": option.meaning for key, option in S3_OPTIONS.items()},
    "file-system.hadoop.…": "A setting of Hadoop's client, with priority over "
    "`$HADOOP_CONF_DIR`; the client reads a few of them ([stores](setup/stores.md#hdfs)).",
    "spark.…": "A setting of Spark.",
}
"""Meanings of keys that other programs define."""
_INTRODUCTION = """\
# Options

Made from the code by `REWRITE=1 ./run.sh test tidy`; do not edit.

## Configuration

The configuration is a TOML file, given with `--conf`. Nested tables and dotted keys mean the same.
An unknown key is an error that names the nearest known one. Relative paths are relative to the
current directory.

The environment has priority over the file, and `--set KEY=VALUE` over both. An empty text removes a
key. `STREAM_APP_SOURCE__MIN_PARTITIONS=4` is `source.min-partitions = 4`: two underscores separate
section and key and stand for a dot, one stands for a hyphen.

In any value `${env:NAME}` is a variable, and `${file:PATH}` the text of a file. `--set` takes a
secret in no other way ([stores](setup/stores.md#secrets)).
"""
_EVERY_FORMAT = """\
## Options of every format

Every format takes these options, beside its own ones below and in the same section, such as
`source.debezium`.
"""
_FORMAT = """\
## Options of `{name}`

Their section is `source.{section}`, {introduction}
"""
_TABLE = """\
## Options of a table

Their section is `table.options`. A new table stores them in its schema. For an existing table they
hold for this job alone, with priority over its schema. Options marked *fixed* and all `fields.*`
are the table's alone: its readers and writers merge rows alike. A job that says another value
does not start; `stream-app alter --set` changes most of them.

Names, types and defaults are those of Apache Paimon 1.4. Paimon keeps options marked *own* and
ignores them. Sizes are numbers with `b`, `kb`, `mb`, `gb` or `tb` (powers of 1024). Durations are
numbers with `ms`, `s`, `min`, `h` or `d`.
"""
_SOURCE = """\
## Options of the Spark source

`spark.read.format("stream_app")` and `spark.readStream.format("stream_app")` take these options, in
any case; [reading](read/reading.md#from-spark) shows how. Names are Paimon's, unless marked *own*.
The source also takes these options of a table: {of_table}.
"""


def options_page() -> str:
    """The whole page."""
    parts = [_INTRODUCTION]
    for section, keys in KEYS.items():
        table = _options_table(CATALOG_OPTIONS.values()) if section == "catalog" else ""
        parts += [f"### `[{section}]`\n", table or _section_table(section, keys)]
    parts += [_EVERY_FORMAT, _format_table(_options_of_every_format())]
    for declaration in FORMATS.values():
        parts += _format_parts(declaration)
    parts += [_TABLE, _options_table(OPTIONS.values())]
    parts += [SUPPORT, REFUSED, _table(HEAD, refusals_rows())]
    parts += [LEFT_UNDONE, _listed(IGNORED_KEYS), HARMLESS, _listed(harmless_keys())]
    of_table = ", ".join(f"`{key}`" for key in SOURCE_OPTIONS if key in OPTIONS)
    job_options = [option for key, option in SOURCE_OPTIONS.items() if key not in OPTIONS]
    parts += [_wrapped(_SOURCE.format(of_table=of_table)), _options_table(job_options)]
    return re.sub(r"\]\((?=[\w/-]+\.md)", "](../", "\n".join(parts))


def meanings() -> dict[str, str]:
    """Key of the configuration → its meaning; a prefix has an ellipsis."""
    declared_meanings = dict(_UNDECLARED)
    for section, declaration in _SECTIONS.items():
        for field in dataclasses.fields(declaration):
            for key in _keys(field):
                required_text = field.metadata.get("required", "")
                suffix = f" Required: {required_text}." if required_text else ""
                declared_meanings[f"{section}.{key}"] = field.metadata["meaning"] + suffix
    return declared_meanings


def _keys(field: dataclasses.Field[Any]) -> list[str]:
    if "convert" in field.metadata:
        return [field.name.replace("_", "-")]
    return [f"{prefix}…" for prefix in field.metadata.get("prefixes", ())]


def _prefixes(section: str) -> list[str]:
    if section == "catalog":
        return []
    if section == "file-system":
        return [name for store in STORES for name in store.option_names]
    return (
        ["…"] if section == "spark" else [f"{prefix}…" for prefix in KEY_FAMILIES.get(section, {})]
    )


def _section_table(section: str, keys: Iterable[str]) -> str:
    meaning = meanings()
    rows = [
        [
            f"`{key}`" if key != "…" else "any",
            _configuration_default(section, key),
            meaning[f"{section}.{key}"],
        ]
        for key in [*keys, *_prefixes(section)]
    ]
    return _table(["key", "default", "meaning"], rows)


def _configuration_default(section: str, key: str) -> str:
    if section not in _SECTIONS:
        return ""
    defaults = {field.name: field.default for field in dataclasses.fields(_SECTIONS[section])}
    default = defaults.get(key.replace("-", "_"))
    if default in (None, "", (), RowType(())) or default is dataclasses.MISSING:
        return ""
    return _code(default.value if isinstance(default, enum.Enum) else default)


def _code(value: object) -> str:
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _format_parts(declaration: FormatDeclaration) -> list[str]:
    introduction = _FORMAT.format(
        name=declaration.name, section=declaration.section, introduction=declaration.introduction
    )
    shared_options = _options_of_every_format()
    return [
        _wrapped(introduction),
        _format_table(option for option in declaration.options if option not in shared_options),
    ]


def _options_of_every_format() -> list[Option[Any]]:
    first, *others = (declaration.options for declaration in FORMATS.values())
    return [option for option in first if all(option in options for options in others)]


def _format_table(options: Iterable[Option[Any]]) -> str:
    rows = [
        [
            f"`{option.key}`",
            " ".join(f"`{value}`" for value in option.only) or option.kind.name,
            option.meaning,
        ]
        for option in options
    ]
    return _table(["option", "values, the default first", "meaning"], rows)


def _options_table(options: Iterable[Option[Any]]) -> str:
    rows = [
        [
            f"`{option.key}`",
            option.kind.name,
            _default(option),
            option.meaning + _values(option) + _marks(option),
        ]
        for option in options
    ]
    return _table(["option", "type", "default", "meaning"], rows)


def _default(option: Option[Any]) -> str:
    value = option.default or None if option.kind.name == "text" else option.default
    if value is None:
        return ""
    if option.kind.name in ("size", "duration") and isinstance(value, int):
        return f"`{_with_unit(value, option.kind.name)}`"
    return _code(value)


def _with_unit(value: int, kind: str) -> str:
    units = (
        [("gb", 1 << 30), ("mb", 1 << 20), ("kb", 1 << 10), ("b", 1)]
        if kind == "size"
        else [("h", 3_600_000), ("min", 60_000), ("s", 1000), ("ms", 1)]
    )
    unit, factor = next((unit, factor) for unit, factor in units if value % factor == 0)
    return f"{value // factor} {unit}"


def _values(option: Option[Any]) -> str:
    return f" Values: {', '.join(f'`{value}`' for value in option.only)}." if option.only else ""


def _marks(option: Option[Any]) -> str:
    marks = [" *Fixed.*"] if is_tables_own(option.key) else []
    marks += [" *Own.*"] if option.is_own else []
    if option.older_keys:
        marks.append(f" Former names: {', '.join(f'`{key}`' for key in option.older_keys)}.")
    return "".join(marks)


def _wrapped(text: str) -> str:
    """Each paragraph in lines of a page's width."""
    lines = [
        textwrap.fill(part, 100, break_on_hyphens=False, break_long_words=False)
        for part in text.strip().split("\n\n")
    ]
    return "\n\n".join(lines) + "\n"


def _listed(keys: Iterable[str]) -> str:
    text = ", ".join(f"`{key}`" for key in sorted(keys)) + "."
    lines = textwrap.wrap(text, 100, break_on_hyphens=False, break_long_words=False)
    return "\n".join(lines) + "\n"


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
