"""Reads the source's DDL statements, and decides what they rename and how a table reacts, as text.

``ddl`` takes a text of SQL, and shows the statements that the grammar reads.

``renames``: each of the first lines is a statement of the database ``shop``. The later lines ask:
``table a, b KEY k [RENAMED old=new] [AT ms] sees c, d [by hold]``. Statements are read at 100 ms.
"""

from __future__ import annotations

import re
from pathlib import Path

from stream_app.cdc.ddl.ddl_parser import parse_statements
from stream_app.model.options.schema_options import RENAMED_COLUMNS
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import TableSchema, new_table_schema
from stream_app.model.source.ddl_statements import (
    AlterTable,
    CreateOrDropTable,
    RenameTable,
    Statement,
    TableName,
)
from stream_app.model.source.origin import Origin
from stream_app.model.source.source_renames import (
    NO_RENAMES,
    RenameReaction,
    SourceDatabase,
    source_renames,
)
from stream_app.planning.schema.column_renames import column_renames
from tests.support.suite.datadriven import Case, run_file

HERE = Path(__file__).parent
_ASKS = re.compile(
    r"table (?P<columns>.*?) KEY (?P<key>\w+)(?: RENAMED (?P<renamed>\S+))?(?: AT (?P<at>\d+))?"
    r" sees (?P<seen>.*?)(?: by (?P<reaction>.*))?"
)


def _name(name: TableName) -> str:
    return ".".join(filter(None, name))


def _statement_text(statement: Statement) -> str:
    match statement:
        case AlterTable():
            parts = [f"{old} → {new}" for old, new in statement.renames]
            parts += [f"+{name}" for name in statement.added_columns]
            parts += [f"-{name}" for name in statement.dropped_columns]
            if statement.new_name is not None:
                parts.append(f"is {_name(statement.new_name)}")
            return f"alter {_name(statement.table)}: {', '.join(parts) or 'nothing'}"
        case RenameTable(pairs):
            return f"rename {', '.join(f'{_name(old)} → {_name(new)}' for old, new in pairs)}"
        case CreateOrDropTable(tables):
            return f"create-or-drop {', '.join(map(_name, tables))}"


def _ddl(case: Case) -> str:
    return "\n".join(map(_statement_text, parse_statements(case.input))) or "nothing"


def _schema(match: re.Match[str]) -> TableSchema:
    columns = ", ".join(f"{name} STRING" for name in match["columns"].split(", "))
    renamed_text = match["renamed"]
    return new_table_schema(
        columns=parse_columns(columns),
        primary_keys=(match["key"],),
        partition_keys=(),
        options={RENAMED_COLUMNS.key: renamed_text} if renamed_text else {},
        time_ms=int(match["at"] or 1),
    )


def _renames(case: Case) -> str:
    renames, shown = NO_RENAMES, []
    for line in case.input_lines:
        match = _ASKS.fullmatch(line)
        if match is None:
            renames = renames.after(SourceDatabase("", "shop"), parse_statements(line), 100)
            assert source_renames(renames.document()) == renames
            continue
        decision = column_renames(
            _schema(match),
            match["seen"].split(", "),
            renames.of([Origin("shop", "", "t")]),
            RenameReaction(match["reaction"] or "follow"),
            can_alias=True,
        )
        parts = [f"rename {old} → {new}" for old, new in decision.renames]
        parts += [f"{old} means {new}" for old, new in sorted(decision.aliases.items())]
        if decision.awaited_columns:
            verb = "await" if decision.awaits_statement else "unknown"
            parts.append(f"{verb} {', '.join(decision.awaited_columns)}")
        shown.append(
            f"{decision.problem}\n  to fix: {decision.fix}"
            if decision.problem
            else "; ".join(parts) or "nothing"
        )
    return "\n".join(shown)


def test_statements_of_the_source_rename_columns() -> None:
    run_file(
        HERE / "renames.txt", lambda case: {"ddl": _ddl, "renames": _renames}[case.command](case)
    )
