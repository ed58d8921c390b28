"""The options of the Spark source, with Paimon's keys: versions, ranges and starts of a read.

A read gets them, and no table stores them. `data_source` takes them; `scan_choice` decides what
they mean together.

Source: Paimon `CoreOptions.java` (``scan.…``, ``incremental-…``), `SparkConnectorOptions.java`
(``read.…``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stream_app.errors import UsageError
from stream_app.model.near_names import unknown_name
from stream_app.model.options import scan_options
from stream_app.model.options.option import (
    BOOLEAN,
    CHOICE,
    LONG,
    TEXT,
    Option,
    OptionKind,
    Value,
    declared_options,
    parse_retention_ms,
)
from stream_app.model.options.store_options import SECRETS_FOR_READS, STORE_OPTIONS_OF_READS

PATH = "path"
CATALOG_PREFIX = "catalog."
"""The prefix of options of the table's catalog; then the path is `DATABASE.TABLE`."""


_OF_FILE_SYSTEM = {option.key: option for option in STORE_OPTIONS_OF_READS}
_OF_TABLE = declared_options(vars(scan_options))
INCREMENTAL_BETWEEN = Option(
    "incremental-between",
    TEXT,
    "",
    "Changes between two snapshots or tags, `3,7`; the first is excluded.",
)
INCREMENTAL_BETWEEN_TIMESTAMP = Option(
    "incremental-between-timestamp",
    TEXT,
    "",
    "Changes between two times, as texts or milliseconds.",
)
INCREMENTAL_BETWEEN_SCAN_MODE = Option(
    "incremental-between-scan-mode",
    CHOICE,
    "auto",
    "Which files are read between two versions.",
    only=("auto", "delta", "changelog", "diff"),
)
READ_CHANGELOG = Option(
    "read.changelog", BOOLEAN, False, "Put a column `rowkind` in front, and read rows of all kinds."
)
READ_COLUMNS = Option(
    "read.columns",
    TEXT,
    None,
    "Columns to read, comma separated. Spark does not report to a Python source which "
    "columns a query needs.",
    is_own=True,
)
READ_PROTECT = Option(
    "read.protect",
    OptionKind("duration", parse_retention_ms),
    None,
    "Time after planning for which a tag keeps the version from expiring. Writes to the "
    "table; Spark does not report the end of a query.",
    is_own=True,
)
READ_STREAM_MAX_FILES_PER_TRIGGER = Option(
    "read.stream.maxFilesPerTrigger", LONG, None, "Files of a micro-batch.", minimum=1
)
READ_STREAM_MAX_BYTES_PER_TRIGGER = Option(
    "read.stream.maxBytesPerTrigger", LONG, None, "Bytes of a micro-batch.", minimum=1
)
READ_STREAM_MAX_ROWS_PER_TRIGGER = Option(
    "read.stream.maxRowsPerTrigger", LONG, None, "Rows of a micro-batch.", minimum=1
)
READ_STREAM_MIN_ROWS_PER_TRIGGER = Option(
    "read.stream.minRowsPerTrigger",
    LONG,
    None,
    "Rows that a micro-batch waits for, but no longer than maxTriggerDelayMs.",
    minimum=1,
)
READ_STREAM_MAX_TRIGGER_DELAY_MS = Option(
    "read.stream.maxTriggerDelayMs",
    LONG,
    None,
    "Longest wait for minRowsPerTrigger, since the last micro-batch.",
    minimum=0,
)

SOURCE_OPTIONS: dict[str, Option[Any]] = declared_options(globals()) | _OF_TABLE | _OF_FILE_SYSTEM
"""The options by key; those that tables have too override the table's own."""

_ROWS_MIN_KEY, _DELAY_MAX_KEY = "read.stream.minRowsPerTrigger", "read.stream.maxTriggerDelayMs"
_BY_LOWER_CASE = {key.lower(): key for key in SOURCE_OPTIONS}


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Options that were given, by their keys; each can be read."""

    raw: Mapping[str, str]

    def __getitem__(self, option: Option[Value]) -> Value:
        """Return the value of an option, or its default."""
        return option.read(self.raw)

    def columns(self) -> tuple[str, ...] | None:
        """Return ``read.columns``; None: all."""
        text = self.raw.get(READ_COLUMNS.key)
        return None if text is None else tuple(part.strip() for part in text.split(","))

    def of_table(self) -> dict[str, str]:
        """Return the options that tables have too."""
        return {key: text for key, text in self.raw.items() if key in _OF_TABLE}

    def of_file_system(self) -> dict[str, str]:
        """Return the options of file systems."""
        return {key: text for key, text in self.raw.items() if key in _OF_FILE_SYSTEM}


def read_source_options(options: Mapping[str, str]) -> SourceOptions:
    """Return the options of a read; the case of keys does not matter, because Spark lowers them.

    Raises:
        UsageError: lists all problems: unknown keys with the nearest known ones, and wrong values.
    """
    texts: dict[str, str] = {}
    problems = []
    for name, text in options.items():
        if name.lower() == PATH or name.lower().startswith(CATALOG_PREFIX):
            continue
        key = _BY_LOWER_CASE.get(name.lower())
        if key is None:
            problems.append(
                f"option {name!r} is refused, because a plan would show it: {instead}"
                if (instead := SECRETS_FOR_READS.get(name.lower()))
                else unknown_name("option", name, [PATH, *SOURCE_OPTIONS])
            )
            continue
        texts[key] = text
        try:
            SOURCE_OPTIONS[key].read(texts)
        except UsageError as error:
            problems.append(f"{error.problem} ({error.fix})")
    if (_ROWS_MIN_KEY in texts) != (_DELAY_MAX_KEY in texts):
        given_key, missing_key = sorted(
            (_ROWS_MIN_KEY, _DELAY_MAX_KEY), key=lambda key: key not in texts
        )
        problems.append(f"option {given_key!r} needs {missing_key!r} as well")
    if problems:
        raise UsageError("; ".join(problems), fix="use an option of docs/reference/options.md")
    return SourceOptions(texts)
