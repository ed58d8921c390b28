"""Messages in, row changes out, as text.

Commands: ``table key=a,b option=value … [no-update-before]`` with the columns as input sets the
table, without a key one that takes inserts alone (``quarantine`` sets other records aside,
``ignore-delete`` skips deletes), ``sequence=a,b`` its sequence fields. ``decode`` takes a message a
line (``~`` is a tombstone, ``b'…'`` raw bytes in Python's spelling) and prints the rows as
``message kind column=value …`` without nulls, the bad records with their reason, and how many
messages were skipped. Decoded one by one, they must give the same. ``decode key=a,b`` names the
columns of the messages' key, which else are the table's; ``key-text`` is a key as it stands.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from stream_app.cdc.change_batch import TableTraits
from stream_app.cdc.insert_only import InsertOnly
from stream_app.cdc.message_format import MessageFormat
from stream_app.errors import StreamAppError
from tests.support.datadriven import Case, files, run_file
from tests.unit.cdc.debezium_messages import Value, a_format, messages, reasons_of, rows_of


class _Tables:
    """The interpreter: remembers the table of the last ``table`` command."""

    def __init__(self) -> None:
        self._case: Case | None = None

    def handle(self, case: Case) -> str:
        try:
            if case.command == "table":
                self._case = case
                self._format()
                return "ok"
            assert case.command == "decode", case.command
            values = [_value(line) for line in case.input_lines]
            key = self._key(case.args)
            together = _lines(self._format(), values, key)
            self._check_alone(values, together, key)
        except StreamAppError as error:
            return str(error)
        return "\n".join(together)

    def _key(self, args: Mapping[str, str]) -> str | None:
        """The messages' key; it holds the primary key unless `args` tell another."""
        assert self._case is not None
        if "key-text" in args:
            return args["key-text"]
        names = args.get("key", self._case.args.get("key", ""))
        return json.dumps(dict.fromkeys(names.split(","), 0)) if names else None

    def _check_alone(self, values: list[Value], together: list[str], key: str | None) -> None:
        """What becomes of a message never depends on another."""
        parts = [_lines(self._format(), [value], key) for value in values]
        alone = [
            f"{at} {line.split(' ', 1)[1]}"
            for at, lines in enumerate(parts)
            for line in lines
            if not line.startswith("skipped")
        ]
        assert sorted(alone) == sorted(line for line in together if not line.startswith("skipped"))

    def _format(self) -> MessageFormat:
        assert self._case is not None
        args = dict(self._case.args)
        keys = [key for key in args.pop("key", "").split(",") if key]
        keep = args.pop("no-update-before", None) is None and bool(keys)
        sets_aside, ignores = (args.pop(w, None) == "" for w in ("quarantine", "ignore-delete"))
        columns = " ".join(self._case.input_lines)
        sequence = tuple(field for field in args.pop("sequence", "").split(",") if field)
        traits = TableTraits(sequence_fields=sequence, ignores_deletes=ignores)
        found = a_format(columns, keys, options=args, keep_update_before=keep, traits=traits)
        if keys:
            return found
        return InsertOnly(messages=found, sets_aside=sets_aside, ignores_deletes=ignores)


def _value(line: str) -> Value:
    if line == "~":
        return None
    return ast.literal_eval(line) if line.startswith("b'") else line


def _lines(decoder: MessageFormat, values: list[Value], key: str | None) -> list[str]:
    decoded = decoder.decode(messages(*values, key=key))
    names = decoded.changes.rows.schema.names[1:]
    lines = [
        f"{at} {kind} "
        + " ".join(
            f"{name}={value!r}" for name, value in zip(names, row, strict=True) if value is not None
        )
        for at, kind, *row in rows_of(decoded)
    ]
    lines += [f"{at} bad: {reason}" for at, reason in reasons_of(decoded).items()]
    return [*lines, f"skipped {decoded.skipped}"]


@pytest.mark.parametrize("path", files(Path(__file__).parent), ids=lambda path: path.stem)
def test_debezium_text(path: Path) -> None:
    run_file(path, _Tables().handle)
