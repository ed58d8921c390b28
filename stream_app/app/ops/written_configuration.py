"""Generates the configuration of a job of one table from facts about its source, for `init`.

The functions are pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from stream_app.model.source.source_table import SourceColumn, SourceTable

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDraft:
    """The facts from which a configuration is generated.

    Attributes:
        described_by: the name of the facts' source, for a comment.
        format_section: the section of the format's options.
        settings: settings of the client and of the format, by their keys in the section ``source``.
    """

    described_by: str
    topic: str
    bootstrap_servers: str
    format: str
    format_section: str
    warehouse: str
    database: str
    name: str
    table: SourceTable
    settings: Mapping[str, str] = field(default_factory=dict)


def configuration_text(draft: JobDraft) -> str:
    """Return TOML that `app_config.load_config` can read, for users to complete."""
    return "\n".join([*_source(draft), "", *_table(draft), "", *_stream(draft)]) + "\n"


def _source(draft: JobDraft) -> list[str]:
    return [
        f"# Written from {draft.described_by}.",
        "",
        "[source]",
        _line("bootstrap-servers", draft.bootstrap_servers),
        _line("topics", [draft.topic]),
        _line("format", draft.format),
        *(f"{_key(key)} = {json.dumps(value)}" for key, value in draft.settings.items()),
        f'# {draft.format_section}."unknown-columns" = "evolve"   # the table follows its source',
    ]


def _table(draft: JobDraft) -> list[str]:
    """Return the lines of ``[table]``, with the source's comments."""
    table, keys = draft.table, list(draft.table.primary_keys)
    comments = [
        f"# {column.name}: {' '.join(column.comment.split())}"
        for column in table.columns
        if column.comment
    ]
    untyped_note = "# The messages have no types: give the columns those of the source."
    key_lines = [
        _line("primary-keys", keys),
        _line("partition-keys", []),
        "",
        "[table.options]",
        _line("bucket", -1) + "   # as many as the keys need; or a number, fixed for good",
        _line("changelog-producer", "lookup")
        + '   # "input" is cheaper, if the source sends whole old rows',
    ]
    return [
        "[table]",
        _line("warehouse", draft.warehouse),
        _line("database", draft.database),
        _line("name", draft.name),
        *comments,
        *([] if table.is_typed else [untyped_note]),
        _line("columns", ", ".join(map(_column, table.columns))),
        *(key_lines if keys else ["# No primary-keys: the table only takes inserts."]),
    ]


def _stream(draft: JobDraft) -> list[str]:
    return [
        "[stream]",
        _line("checkpoint", f"./checkpoint/{draft.name}"),
        _line("trigger", "5 seconds"),
        _line("quarantine", f"./quarantine/{draft.name}"),
    ]


def _line(key: str, value: object) -> str:
    return f"{key} = {json.dumps(value, ensure_ascii=False)}"


def _key(key: str) -> str:
    section, _, rest = key.partition(".")
    return f"{section}.{json.dumps(rest)}" if rest else section


def _column(column: SourceColumn) -> str:
    quoted_name = f'"{column.name}"' if "`" in column.name else f"`{column.name}`"
    name = column.name if _PLAIN_NAME.fullmatch(column.name) else quoted_name
    return f"{name} {column.data_type}"
