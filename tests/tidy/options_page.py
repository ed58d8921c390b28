"""Makes docs/OPTIONS.md from the declarations: configuration keys, format options, table options.

Compared with the file by test_docs.py; `REWRITE=1 ./run.sh test tidy` writes it anew.
"""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Iterable
from typing import Any

from stream_app.app.config.app_config import KEYS, PREFIXES, SourceConfig, StreamConfig, TableConfig
from stream_app.cdc.formats import FORMATS
from stream_app.cdc.message_format import Format
from stream_app.fileio.hdfs.hdfs_file_io import HDFS_OPTION_PREFIX
from stream_app.fileio.s3.s3_options import S3_OPTION_NAMES
from stream_app.model.options.core_options import FIXED_OPTIONS, OPTIONS, REFUSED
from stream_app.model.options.ignored_options import IGNORED_KEYS
from stream_app.model.options.option import Option
from stream_app.model.options.paimon_option_keys import CORE_KEYS
from stream_app.model.options.source_options import SOURCE_OPTIONS

MEANINGS = {
    "source.kind": "`kafka`, or `files`: a folder of `*.jsonl`, a line a message.",
    "source.bootstrap-servers": "`HOST:PORT` of brokers, parted by commas.",
    "source.topics": "Topics to read.",
    "source.topic-pattern": "Instead of `topics`: a regular expression in Java's syntax that must "
    "match a topic's whole name.",
    "source.format": "Format of the messages.",
    "source.starting-offsets": "`earliest`, `latest`, or JSON such as "
    '`{"orders": {"0": 23, "1": -2}}` (-2 earliest, -1 latest). Only for a new checkpoint.',
    "source.max-offsets-per-trigger": "Records of an epoch; absent: all that there are.",
    "source.min-partitions": "Least number of tasks that read; absent: one for each core.",
    "source.fail-on-data-loss": "Stop when records are gone that were not read yet.",
    "source.merge-shards": "`true`: the records of several tables of the source belong into the "
    "table, whose primary key tells their rows apart. Else they stop the job.",
    "source.kafka.…": "Anything under `kafka.` is handed to Kafka's Java client.",
    "source.debezium.…": "Options of the format, below.",
    "source.path": "With `files`: the folder.",
    "source.max-files-per-trigger": "With `files`: files of an epoch; absent: all that there are.",
    "table.warehouse": "Folder of all databases; the table is `WAREHOUSE/DATABASE.db/NAME`.",
    "table.database": "The table's database.",
    "table.name": "The table's name.",
    "table.columns": "`name TYPE [NOT NULL]`, parted by commas, as in SQL.",
    "table.primary-keys": "Columns that name a row; they become NOT NULL. Absent: an append table, "
    "which takes inserts alone.",
    "table.partition-keys": "Columns that part the table into folders; part of the primary key, if "
    "there is one.",
    "table.comment": "A comment for a new table.",
    "table.options.…": "Options of Paimon, below.",
    "stream.checkpoint": "Folder that remembers what was read and committed, on any file system "
    "that Spark reaches ([stores](stores.md#checkpoint-and-quarantine)). It belongs to this table "
    "alone.",
    "stream.trigger": "`availableNow`, or how long after an epoch's start the next one starts.",
    "stream.quarantine": "Folder for records that cannot be decoded, on any file system that Spark "
    "reaches; absent: the first one stops the job.",
    "stream.max-bad-records": "More of them in one run stop the job; absent: any number is put up "
    "with.",
    "stream.non-insert-records": "What an update or a delete does when the table has no primary "
    "key: `error` stops the job, `quarantine` sets the record aside as a bad one.",
    "stream.write-parallelism": "Tasks that write; absent: Spark's default parallelism.",
    "stream.decode-parallelism": "Tasks that decode; absent: one for each task that reads.",
    "stream.metrics-port": "Port of `http://…/metrics`, for Prometheus; absent: there is none.",
    "file-system.s3.endpoint": "URL of a store that speaks S3's language; absent: Amazon's in the "
    "region, or the variable `AWS_ENDPOINT_URL`.",
    "file-system.s3.region": "The region; absent: the variable `AWS_REGION`, or `us-east-1`.",
    "file-system.s3.access-key": "Key; absent: the variable `AWS_ACCESS_KEY_ID`, a profile, or "
    "the role of the machine. As `${file:PATH}` it is renewed while the job runs.",
    "file-system.s3.secret-key": "Its secret; absent: the variable `AWS_SECRET_ACCESS_KEY`, a "
    "profile, or the role of the machine. Best written as `${env:NAME}` or `${file:PATH}`.",
    "file-system.s3.session.token": "Token of keys that expire; absent: the variable "
    "`AWS_SESSION_TOKEN`.",
    "file-system.s3.path.style.access": "Whether the bucket stands in a URL's path and not in its "
    "host; absent: as the endpoint's host needs it.",
    "file-system.s3.connection.ssl.enabled": "`false`: an endpoint without `https://` is reached "
    "without TLS.",
    "file-system.s3.requester.pays.enabled": "`true`: who reads a bucket of others pays for it.",
    "file-system.s3.encryption.algorithm": "How the store encrypts new files: `SSE-S3` (or "
    "`AES256`), `SSE-KMS`, `DSSE-KMS`; absent: as the bucket says.",
    "file-system.s3.encryption.key": "The key of KMS for it; absent: the bucket's or the "
    "account's.",
    "file-system.s3.create-lock-file": "*Own.* For a store that takes every PUT: a file that all "
    "drivers share, locked by whoever creates a snapshot "
    "([stores.md](stores.md#a-store-that-takes-every-put)).",
    "file-system.hadoop.…": "Anything under `hadoop.` is a setting of Hadoop's client, over those "
    "in `$HADOOP_CONF_DIR`; a few of them are minded ([stores.md](stores.md#hdfs)).",
    "spark.…": "Anything under `[spark]` is a setting of Spark.",
}
"""What each key of the configuration is for. A test sees that it has every key and no other."""

REQUIRED = {
    "source.bootstrap-servers": "with `kafka`",
    "source.topics": "with `kafka`, or a pattern",
    "source.path": "with `files`",
    "table.warehouse": "always",
    "table.name": "always",
    "table.columns": "always",
    "stream.checkpoint": "always",
}
_SECTIONS = {"source": SourceConfig, "table": TableConfig, "stream": StreamConfig}
_INTRODUCTION = """\
# Options

Made from the code by `REWRITE=1 ./run.sh test tidy`; do not edit.

## Configuration

A TOML file, given with `--conf`. Nested tables and dotted keys are the same. A key that is not
here is an error that names the nearest one. The environment beats the file
(`STREAM_APP_SOURCE__MIN_PARTITIONS=4` is `source.min-partitions = 4`: two underscores part section
from key and stand for a dot, one for a hyphen), and `--set KEY=VALUE` beats both. An empty text
takes a key away. Relative paths are relative to the current directory. In any value `${env:NAME}`
and `${file:PATH}` stand for a variable and for the text of a file; a secret is not taken from
`--set` otherwise ([stores.md](stores.md#secrets)).
"""
_FORMAT = """\
## Options of `{name}`

Given under `source.{section}`, {introduction}
"""
_TABLE = """\
## Options of a table

Given under `table.options`. A new table stores them in its schema. For a table that is there they
hold for this job alone, over those of its schema; the *fixed* ones must agree with it. Names, types
and defaults are those of Apache Paimon 1.4, unless marked *own*: Paimon keeps those and does
nothing with them. Sizes are numbers with `b`, `kb`, `mb`, `gb` or `tb` (powers of 1024), durations
numbers with `ms`, `s`, `min`, `h` or `d`.
"""
_SOURCE = """\
## Options of the Spark source

Given to `spark.read.format("stream_app")` and `spark.readStream.format("stream_app")`, in any case,
as [READING.md](READING.md#from-spark) tells. Names are Paimon's, unless marked *own*. Besides there
are, from above: {of_table}.
"""
_REFUSED = """\
### Refused

A table that asks for one of these needs a writer that does more than stream_app, so it is not
written: a switch (`….enabled`) that is true, a `branch` other than `main`, a `type` other than
`table`, a `data-file.external-paths.strategy` other than `none`, any value of the others.
"""
_CARRIED = """\
### Known and kept

All other options of Paimon 1.4 are accepted, checked for their type, stored in the table's schema
and not acted on: they are for other engines, or for a later version. Among them are options of
lookup and other engines' reading, and options of columns (`fields.…`), indexes (`file-index.…`)
and file formats (`parquet.…`). Those that ask for something that a writing job would do, and ours
does not, a job names in one warning when it begins: besides `file-index.….columns`,
`fields.….stats-mode`, `parquet.…`, `metadata.iceberg.…`, `commit.callback.…`, `tag.callback.…` and
`tag.automatic-creation = batch` these, unless they have the value of what is done anyway:

{ignored}
The others:
"""


def options_page() -> str:
    """The whole page."""
    parts = [_INTRODUCTION]
    for section, keys in KEYS.items():
        parts += [f"### `[{section}]`\n", _section_table(section, keys)]
    for each in FORMATS.values():
        parts += _format_parts(each)
    parts += [_TABLE, _options_table(OPTIONS.values())]
    parts += [_REFUSED, _listed(REFUSED), _CARRIED.format(ignored=_listed(IGNORED_KEYS))]
    parts += [_listed(CORE_KEYS.keys() - OPTIONS.keys() - REFUSED.keys() - IGNORED_KEYS)]
    of_table = ", ".join(f"`{key}`" for key in SOURCE_OPTIONS if key in OPTIONS)
    own = [option for key, option in SOURCE_OPTIONS.items() if key not in OPTIONS]
    parts += [_wrapped(_SOURCE.format(of_table=of_table)), _options_table(own)]
    return "\n".join(parts)


def configuration_keys() -> list[str]:
    """Every key of the configuration, prefixes with an ellipsis."""
    return [
        f"{section}.{key}" for section, keys in KEYS.items() for key in [*keys, *_prefixes(section)]
    ]


def _prefixes(section: str) -> list[str]:
    if section == "file-system":
        return [*S3_OPTION_NAMES, f"{HDFS_OPTION_PREFIX}…"]
    return ["…"] if section == "spark" else [f"{prefix}…" for prefix in PREFIXES.get(section, {})]


def _section_table(section: str, keys: Iterable[str]) -> str:
    rows = []
    for key in [*keys, *_prefixes(section)]:
        name = f"{section}.{key}"
        default = _configuration_default(section, key)
        needed = f" Required: {REQUIRED[name]}." if name in REQUIRED else ""
        rows.append([f"`{key}`" if key != "…" else "any", default, MEANINGS[name] + needed])
    return _table(["key", "default", "meaning"], rows)


def _configuration_default(section: str, key: str) -> str:
    if section not in _SECTIONS:
        return ""
    defaults = {field.name: field.default for field in dataclasses.fields(_SECTIONS[section])}
    default = defaults.get(key.replace("-", "_"))
    if default in (None, "", ()) or default is dataclasses.MISSING:
        return ""
    return _code(default)


def _code(value: object) -> str:
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _format_parts(of: Format) -> list[str]:
    introduction = _FORMAT.format(name=of.name, section=of.section, introduction=of.introduction)
    rows = [
        [
            f"`{option.key}`",
            " ".join(f"`{value}`" for value in option.values) or "names",
            option.meaning,
        ]
        for option in of.options
    ]
    return [
        _wrapped(introduction),
        _table(["option", "values, the default first", "meaning"], rows),
    ]


def _options_table(options: Iterable[Option[Any]]) -> str:
    rows = [
        [
            f"`{option.key}`",
            option.kind,
            _default(option),
            option.meaning + _values(option) + _marks(option),
        ]
        for option in options
    ]
    return _table(["option", "type", "default", "meaning"], rows)


def _default(option: Option[Any]) -> str:
    value = option.default or None if option.kind == "text" else option.default
    if value is None:
        return ""
    if option.kind in ("size", "duration") and isinstance(value, int):
        return f"`{_with_unit(value, option.kind)}`"
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
    marks = [" *Fixed.*"] if option.key in FIXED_OPTIONS else []
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
