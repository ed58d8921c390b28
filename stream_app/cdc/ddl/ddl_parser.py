"""Parses the few statements of MySQL and MariaDB that rename columns and tables.

It has its own small grammar, because sqlglot does not parse a RENAME of several tables. It parses
ALTER, RENAME, CREATE and DROP TABLE, and only the names in their clauses. It ignores all other
statements.

Source: MySQL 8.4 Reference Manual, "ALTER TABLE Statement", "RENAME TABLE Statement"; MariaDB
documentation, "ALTER TABLE".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from stream_app.model.source.ddl_statements import (
    AlterTable,
    CreateOrDropTable,
    RenameTable,
    Renaming,
    Statement,
    TableName,
)

_TOKENS = re.compile(
    r"""
    /\*(?!M?!).*?\*/ | /\*M?!\d* | \*/ | --(?=\s|$)[^\n]* | \#[^\n]*
    | `(?P<back>(?:[^`]|``)*)` | "(?P<double>(?:[^"\\]|\\.|"")*)"
    | '(?P<text>(?:[^'\\]|\\.|'')*)' | (?P<word>[\w$]+) | (?P<sign>\S)
    """,
    re.VERBOSE | re.DOTALL,
)
_OTHER_PARTS = (
    *("index", "key", "unique", "primary", "fulltext", "spatial", "constraint", "foreign"),
    *("check", "partition", "period", "system"),
)
"""The words after ADD or DROP that begin something other than a column."""


def parse_statements(text: str) -> list[Statement]:
    """Parse the statements that rename columns, or create, drop or rename tables."""
    statements = (_parse_statement(tokens) for tokens in _split(_tokens(text), ";"))
    return [statement for statement in statements if statement is not None]


class _SqlToken(NamedTuple):
    """A token with its text, and whether it may be a keyword."""

    text: str
    is_bare: bool
    is_name: bool

    def is_one_of(self, *words: str) -> bool:
        return self.is_bare and self.text.lower() in words


class _ReadError(Exception):
    """The text is not a statement of this grammar."""


class _SqlTokenCursor:
    """A cursor that consumes the tokens of a statement from left to right."""

    def __init__(self, tokens: Sequence[_SqlToken]) -> None:
        self._tokens = tokens
        self._position = 0

    def consume(self, *words: str) -> bool:
        """Consume the next token if it is one of these words."""
        if is_next := self.next_is_one_of(*words):
            self._position += 1
        return is_next

    def next_is_one_of(self, *words: str) -> bool:
        return self._position < len(self._tokens) and self._tokens[self._position].is_one_of(*words)

    def skip(self, *words: str) -> None:
        while self.consume(*words):
            pass

    def take_name(self) -> str:
        if self._position >= len(self._tokens) or not self._tokens[self._position].is_name:
            raise _ReadError
        self._position += 1
        return self._tokens[self._position - 1].text

    def take_table(self) -> TableName:
        first_name = self.take_name()
        return (
            TableName(first_name, self.take_name())
            if self.consume(".")
            else TableName("", first_name)
        )

    def rest(self) -> Sequence[_SqlToken]:
        return self._tokens[self._position :]


def _tokens(text: str) -> list[_SqlToken]:
    tokens = []
    for match in _TOKENS.finditer(text):
        group = match.lastgroup
        if group == "back":
            tokens.append(_SqlToken(match[group].replace("``", "`"), is_bare=False, is_name=True))
        elif group == "double":
            tokens.append(_SqlToken(match[group].replace('""', '"'), is_bare=False, is_name=True))
        elif group is not None:
            is_bare, is_name = group != "text", group == "word"
            tokens.append(_SqlToken(match[group], is_bare=is_bare, is_name=is_name))
    return tokens


def _split(tokens: Sequence[_SqlToken], sign: str) -> Iterator[_SqlTokenCursor]:
    """Yield the parts between occurrences of a sign outside of brackets."""
    depth, start = 0, 0
    for index, token in enumerate(tokens):
        depth += token.is_one_of("(") - token.is_one_of(")")
        if depth == 0 and token.is_one_of(sign):
            yield _SqlTokenCursor(tokens[start:index])
            start = index + 1
    yield _SqlTokenCursor(tokens[start:])


def _parse_statement(tokens: _SqlTokenCursor) -> Statement | None:
    try:
        if tokens.consume("alter"):
            tokens.skip("online", "ignore")
            return _parse_alter_table(tokens) if tokens.consume("table") else None
        if tokens.consume("rename"):
            return _parse_rename_table(tokens) if tokens.consume("table", "tables") else None
        if tokens.consume("create"):
            tokens.skip("or", "replace")
            return _parse_create_table(tokens) if tokens.consume("table") else None
        if tokens.consume("drop"):
            return _parse_drop_table(tokens) if tokens.consume("table", "tables") else None
    except _ReadError:
        pass
    return None


def _parse_alter_table(tokens: _SqlTokenCursor) -> AlterTable:
    """Parse the clauses of ALTER TABLE that rename, add or drop columns or the table."""
    tokens.skip("if", "exists")
    table = tokens.take_table()
    renames: list[Renaming] = []
    added_columns: list[str] = []
    dropped_columns: list[str] = []
    new_name = None
    for clause in _split(tokens.rest(), ","):
        if clause.consume("change"):
            clause.skip("column", "if", "exists")
            renames.append(Renaming(clause.take_name(), clause.take_name()))
        elif clause.consume("rename"):
            if clause.consume("column"):
                clause.skip("if", "exists")
                old_name = clause.take_name()
                clause.skip("to")
                renames.append(Renaming(old_name, clause.take_name()))
            elif not clause.next_is_one_of("index", "key"):
                clause.skip("to", "as", "=")
                new_name = clause.take_table()
        elif clause.consume("add"):
            added_columns += _added_columns(clause)
        elif clause.consume("drop") and not clause.next_is_one_of(*_OTHER_PARTS):
            clause.skip("column", "if", "exists")
            dropped_columns.append(clause.take_name())
    return AlterTable(
        table=table,
        renames=tuple(pair for pair in renames if pair.old_name != pair.new_name),
        added_columns=tuple(added_columns),
        dropped_columns=tuple(dropped_columns),
        new_name=new_name,
    )


def _added_columns(clause: _SqlTokenCursor) -> list[str]:
    if not clause.consume("column") and clause.next_is_one_of(*_OTHER_PARTS):
        return []
    clause.skip("column", "if", "not", "exists")
    if not clause.consume("("):
        return [clause.take_name()]
    inner = clause.rest()[:-1]
    return [
        column.take_name()
        for column in _split(inner, ",")
        if not column.next_is_one_of(*_OTHER_PARTS)
    ]


def _parse_rename_table(tokens: _SqlTokenCursor) -> RenameTable:
    tokens.skip("if", "exists")
    pairs = []
    for pair in _split(tokens.rest(), ","):
        old_name = pair.take_table()
        pair.skip("wait", "nowait", "to")
        pairs.append((old_name, pair.take_table()))
    return RenameTable(tuple(pairs))


def _parse_create_table(tokens: _SqlTokenCursor) -> CreateOrDropTable:
    tokens.skip("if", "not", "exists")
    return CreateOrDropTable((tokens.take_table(),))


def _parse_drop_table(tokens: _SqlTokenCursor) -> CreateOrDropTable:
    tokens.skip("if", "exists")
    return CreateOrDropTable(tuple(part.take_table() for part in _split(tokens.rest(), ",")))
