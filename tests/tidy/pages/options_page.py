"""Makes docs/OPTIONS.md from the declarations: configuration keys, format options, table options.

Compared with the file by test_docs.py; `REWRITE=1 ./run.sh test tidy` writes it anew.
"""

from __future__ import annotations

import dataclasses
import enum
import textwrap
from collections.abc import Iterable
from typing import Any

from stream_app.app.config.app_config import KEYS, PREFIXES
from stream_app.app.config.source_config import SourceConfig
from stream_app.app.config.stream_config import StreamConfig
from stream_app.app.config.sync_config import SyncConfig
from stream_app.app.config.table_config import TableConfig
from stream_app.catalog.catalog_options import OPTIONS as CATALOG_OPTIONS
from stream_app.cdc.message_format import FormatDeclaration
from stream_app.fileio.file_io_registry import STORES
from stream_app.message_format_registry import FORMATS
from stream_app.model.options.core_options import OPTIONS
from stream_app.model.options.option import Option
from stream_app.model.options.option_support import IGNORED_KEYS
from stream_app.model.options.store_options import S3_OPTIONS
from stream_app.model.schema.data_type import RowType
from stream_app.model.schema.tables_own_options import is_tables_own
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

MEANINGS = {
    "source.kind": "`kafka`, or `files`: a folder of `*.jsonl`, a line a message.",
    "source.bootstrap-servers": "`HOST:PORT` of brokers, comma separated.",
    "source.topics": "Topics to read.",
    "source.topic-pattern": "Instead of `topics`: a regular expression for whole names.",
    "source.format": "Format of the messages.",
    "source.starting-offsets": "`earliest`, `latest`, or JSON such as "
    '`{"orders": {"0": 23, "1": -2}}` (-2 earliest, -1 latest). Only for a new checkpoint.',
    "source.starting-timestamp": "Instead: the time of the first messages, as milliseconds since "
    "1970 or as `2026-11-27T08:00:00Z`. A partition without such a message begins at its end.",
    "source.starting-offsets-by-timestamp": "Instead: JSON of a time for each topic or partition, "
    'such as `{"orders": 1764230400000}` or `{"orders": {"0": 1764230400000}}`.',
    "source.group-id": "A consumer group. A new job begins at its offsets, and where it has none "
    "at `starting-offsets`. The group gets the job's offsets, for tools that watch lag.",
    "source.snapshot-from": "JDBC URL of a database whose rows come [first](first-load.md).",
    "source.snapshot-password": "The user's password; absent: `PGPASSWORD` or `MYSQL_PWD`.",
    "source.snapshot-table": "Of `[table]`: `TABLE` or `SCHEMA.TABLE` there; absent: its name.",
    "source.snapshot-rows": "Most rows that a task reads at once.",
    "source.max-offsets-per-trigger": "Most records of an epoch; absent: all of the moment.",
    "source.min-partitions": "Least number of tasks that read; absent: one for each core.",
    "source.fail-on-data-loss": "Stop when the topic has dropped unread records.",
    "source.reader": "`native`: librdkafka, `spark`: Spark's; absent: native where it can.",
    "source.merge-shards": "`true`: several source tables are shards of this table, and their keys "
    "differ. Else records of a second table go to quarantine, and many of them stop the job.",
    "source.clusters.…": "`NAME.KEY` of a [further cluster](stores.md#several-clusters).",
    "source.kafka.…": "Options of Kafka's Java consumer; the native reader translates them.",
    **{
        f"source.{section}.…": "Options of the format, below."
        for section in dict.fromkeys(declaration.section for declaration in FORMATS.values())
    },
    "source.path": "With `files`: the folder.",
    "source.max-files-per-trigger": "With `files`: most files of an epoch; absent: all.",
    "table.warehouse": "Folder of all databases; the table is `WAREHOUSE/DATABASE.db/NAME`.",
    "table.database": "The table's database.",
    "table.name": "The table's name.",
    "table.branch": "A branch to write, made by `stream-app branch create`; absent: the main one.",
    "table.columns": "`name TYPE [NOT NULL]`, comma separated, as in SQL; also "
    "[nested types](schemas.md#nested-columns).",
    "table.primary-keys": "Columns that identify a row; they become NOT NULL. Absent: an append "
    "table, which takes inserts alone.",
    "table.partition-keys": "Columns whose values divide the table into folders. With a primary "
    "key they must be part of it.",
    "table.comment": "A comment for a new table.",
    "table.computed-columns": "Columns computed from others, such as "
    "`dt=date_format(created, yyyy-MM-dd)` ([functions](computed-columns.md)).",
    "table.metadata-columns": "Columns that a message tells beside its row: `database_name`, "
    "`schema_name`, `table_name`, `op_ts`, `topic`, `partition`, `offset`, `timestamp`.",
    "table.metadata-column-prefix": "Before the name of each metadata column.",
    "table.filter": "The condition of rows that belong into the table, such as "
    "`status <> 'draft'` ([filters](computed-columns.md#filters)).",
    "table.options.…": "Options of Paimon, below.",
    "sync.warehouse": "Folder of all databases; a table is `WAREHOUSE/DATABASE.db/NAME`.",
    "sync.database": "The database of all tables.",
    "sync.including-tables": "Regular expression that must match the whole name of a source table.",
    "sync.excluding-tables": "Source tables to leave out; outweighs `including-tables`.",
    "sync.including-dbs": "The same for the source's databases; a message that does not name its "
    "database passes.",
    "sync.excluding-dbs": "Databases to leave out; outweighs `including-dbs`.",
    "sync.table-prefix": "Before the name of each table, unless `table-mapping` or "
    "`table-prefix-db` names it.",
    "sync.table-suffix": "Behind the name of each table, likewise.",
    "sync.merge-shards": "`true`: tables of one name in several databases become one table. "
    "`false`: each table is named `DATABASE_TABLE`.",
    "sync.case-sensitive": "`false`: names of tables and columns become lower case "
    "([databases](databases.md#which-tables-are-taken-and-their-names)).",
    "sync.primary-keys": "Primary key of each table that has all of these columns; the others get "
    "that of the source.",
    "sync.partition-keys": "Partition keys of each table that has all of these columns.",
    "sync.sync-primary-keys-from-source-schema": "Whether a table without `primary-keys` gets the "
    "key of the source.",
    "sync.type-mapping": "How types of the source become types of columns, such as "
    "`tinyint1-not-bool`, `to-nullable`, `to-string`.",
    "sync.inexact": "Type of columns for times of day with more than milliseconds, which Paimon's "
    "TIME cannot hold ([schemas.md](schemas.md#types-that-paimon-cannot-hold)).",
    "sync.json-as": "Type of columns for documents ([schemas.md](schemas.md#variant)).",
    "sync.computed-column": "Columns computed from others, of each table with these, such as "
    "`dt=date_format(created, yyyy-MM-dd)` ([functions](computed-columns.md)).",
    "sync.metadata-column": "Columns that a message tells beside its row, of each table, such as "
    "`op_ts` and `offset` ([metadata](computed-columns.md#metadata-columns)).",
    "sync.metadata-column-prefix": "Before the name of each metadata column.",
    "sync.transactions": "`whole`: epochs end between [transactions](transactions.md).",
    "sync.max-tables": "So many tables the job makes; messages of others go to the quarantine.",
    "sync.renames": "What a table does when its source has renamed a column: `follow`, "
    "`new-column` or `hold` ([renamed columns](schemas.md#renamed-columns)).",
    "sync.filter": "The condition of rows that belong into a table, of each table with its columns "
    "([filters](computed-columns.md#filters)).",
    "sync.table-mapping.…": "A source table's name → the table's name; `table`, or "
    "`database.table` to tell shards apart. It outweighs prefix and suffix.",
    "sync.table-prefix-db.…": "A database of the source → the prefix of its tables.",
    "sync.table-suffix-db.…": "A database of the source → the suffix of its tables.",
    "sync.multiple-table-partition-keys.…": "A source table's name → its partition keys; outweighs "
    "`partition-keys`.",
    "sync.options.…": "Options of Paimon for all tables, below.",
    "sync.tables.…": "Of one table by its name: `NAME.primary-keys`, `NAME.partition-keys`, "
    "`NAME.computed-column`, `NAME.metadata-column`, `NAME.metadata-column-prefix`, `NAME.filter`, "
    "`NAME.renames`, "
    "`NAME.unknown-columns`, `NAME.missing-columns`, `NAME.narrowed-columns`, "
    "`NAME.column-aliases`, `NAME.truncate`, `NAME.options.…`. These outweigh everything else.",
    "expectations.…": "A condition that rows must meet, by its name: `NAME.condition`, "
    "`NAME.action` (`quarantine`, `drop`, `hold` or `fail`) and, for a whole database, "
    "`NAME.tables`, a regular expression of whole names "
    "([expectations](computed-columns.md#expectations)).",
    "stream.checkpoint": "Folder with the job's progress in source and table, of this table alone, "
    "on any file system that Spark reaches ([stores](stores.md#checkpoint-and-quarantine)).",
    "stream.trigger": "`availableNow`, or the time from one epoch's start to the next one's.",
    "stream.freshness": "In place of `trigger`: age of the rows ([epochs](scaling.md#freshness)).",
    "stream.quarantine": "Folder for bad records, on any file system that Spark reaches; absent: "
    "the first one stops the job.",
    "stream.max-bad-records": "Number of bad records in one run beyond which the job stops; "
    "absent: no limit.",
    "stream.non-insert-records": "Effect of an update or a delete on a table without a primary "
    "key: `error` stops the job, `quarantine` treats it as a bad record.",
    "stream.repeated-records": "`refuse`: a job with a new checkpoint does not begin where it "
    "would read records that the table has already, and that would count twice: without a primary "
    "key, and with functions such as `sum`. `store`: it stores them again.",
    "stream.compaction-policy": "`options`: the table's options tell when a bucket is compacted. "
    "`auto`: the job chooses by the bucket's size and flushes "
    "([rules](scaling.md#rules-that-fit-a-buckets-size)).",
    "stream.compaction-freshness": "With `auto`: sorted runs beyond which a bucket's writes wait.",
    "stream.compaction-cores": "Compactions at a time; absent: half of Spark's cores. "
    "`compaction.max-parallelism` wins ([cores](scaling.md#cores-of-compactions)).",
    "stream.share": "Of a job of a whole database: its share of the tables, such as `3/8` for the "
    "third of eight jobs that share them ([databases](databases.md#several-jobs)).",
    "stream.write-parallelism": "Tasks that write; absent: Spark's default parallelism.",
    "stream.driver-messages": "The driver itself reads, decodes and writes an epoch of at most so "
    "many messages, without a job of Spark; in a job of a whole database a tenth of them. 0: tasks "
    "of Spark do always ([small epochs](performance.md#small-epochs)).",
    "stream.metrics-port": "Port of `http://…/metrics`, for Prometheus; absent: no metrics.",
    "stream.metrics-address": "Address at which that port listens; the default is all of IPv4, and "
    "`::` all of both versions.",
    "stream.log-format": "`text`, or `json`: one object a line ([the log](OPERATING.md#the-log)).",
    "stream.webhook-url": "Address that gets a notice when the job stops, holds a table back or "
    "quarantines records ([notices](monitoring.md#notices)). It is a secret.",
    "stream.webhook-secret": "Signs these notices.",
    "stream.otlp-endpoint": "Address of an OpenTelemetry collector, such as "
    "`http://collector:4318`, that gets traces of epochs; `environment`: as OpenTelemetry's "
    "variables say; absent: nothing is sent ([OpenTelemetry](monitoring.md#opentelemetry)).",
    "stream.openlineage-url": "Address of a lineage service, such as `http://marquez:5000`; "
    "`environment`: as the client's own variables and file say; absent: nothing is sent "
    "([lineage](monitoring.md#lineage)).",
    "stream.openlineage-namespace": "Namespace in which that service keeps the job.",
    "stream.max-staleness": "How far a table may be behind its source for `/readyz` to answer 200.",
    "stream.web-port": "Port of the job's page in a browser; absent: no page.",
    "stream.web-host": "Address at which that page is served. Another address than this "
    "machine's own lets the network read the tables ([in a browser](web.md#security)).",
    "stream.web-names": "Names that browsers call the page by, beside `localhost`, addresses and "
    "the machine's own name; `*`: any ([in a browser](web.md#security)).",
    **{f"file-system.{key}": option.meaning for key, option in S3_OPTIONS.items()},
    "file-system.hadoop.…": "A setting of Hadoop's client, with priority over "
    "`$HADOOP_CONF_DIR`; the client reads a few of them ([stores.md](stores.md#hdfs)).",
    "spark.…": "A setting of Spark.",
}
"""Meaning of each key of the configuration; a test checks that no key is missing."""

REQUIRED = {
    "source.bootstrap-servers": "with `kafka`",
    "source.topics": "with `kafka`, or a pattern",
    "source.path": "with `files`",
    "table.warehouse": "with `[table]`",
    "table.name": "with `[table]`",
    "table.columns": "with `[table]`",
    "sync.warehouse": "with `[sync]`",
    "stream.checkpoint": "always",
}
_SECTIONS = {
    "source": SourceConfig, "table": TableConfig, "sync": SyncConfig, "stream": StreamConfig
}  # fmt: skip
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
secret in no other way ([stores.md](stores.md#secrets)).
"""
_FORMAT = """\
## Options of `{name}`

They stand under `source.{section}`, {introduction}
"""
_TABLE = """\
## Options of a table

They stand under `table.options`. A new table stores them in its schema. For an existing table they
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
any case; [READING.md](READING.md#from-spark) shows how. Names are Paimon's, unless marked *own*.
The source also takes these options of a table: {of_table}.
"""


def options_page() -> str:
    """The whole page."""
    parts = [_INTRODUCTION]
    for section, keys in KEYS.items():
        table = _options_table(CATALOG_OPTIONS.values()) if section == "catalog" else ""
        parts += [f"### `[{section}]`\n", table or _section_table(section, keys)]
    for declaration in FORMATS.values():
        parts += _format_parts(declaration)
    parts += [_TABLE, _options_table(OPTIONS.values())]
    parts += [SUPPORT, REFUSED, _table(HEAD, refusals_rows())]
    parts += [LEFT_UNDONE, _listed(IGNORED_KEYS), HARMLESS, _listed(harmless_keys())]
    of_table = ", ".join(f"`{key}`" for key in SOURCE_OPTIONS if key in OPTIONS)
    job_options = [option for key, option in SOURCE_OPTIONS.items() if key not in OPTIONS]
    parts += [_wrapped(_SOURCE.format(of_table=of_table)), _options_table(job_options)]
    return "\n".join(parts)


def configuration_keys() -> list[str]:
    """Every key of the configuration, prefixes with an ellipsis."""
    return [
        f"{section}.{key}" for section, keys in KEYS.items() for key in [*keys, *_prefixes(section)]
    ]


def _prefixes(section: str) -> list[str]:
    if section == "catalog":
        return []
    if section == "file-system":
        return [name for store in STORES for name in store.option_names]
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
    if default in (None, "", (), RowType(())) or default is dataclasses.MISSING:
        return ""
    return _code(default.value if isinstance(default, enum.Enum) else default)


def _code(value: object) -> str:
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _format_parts(declaration: FormatDeclaration) -> list[str]:
    introduction = _FORMAT.format(
        name=declaration.name, section=declaration.section, introduction=declaration.introduction
    )
    rows = [
        [
            f"`{option.key}`",
            " ".join(f"`{value}`" for value in option.only) or option.kind.name,
            option.meaning,
        ]
        for option in declaration.options
    ]
    return [
        _wrapped(introduction),
        _table(["option", "values, the default first", "meaning"], rows),
    ]


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
