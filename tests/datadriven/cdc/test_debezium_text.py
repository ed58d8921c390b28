"""Decodes Debezium's messages to changes of rows, as text.

``table key=a,b option=value … [no-update-before]`` sets the table, whose columns are the input.
``sequence=a,b`` names its sequence fields. Without a key the table takes only inserts:
``quarantine`` quarantines other records, and ``ignore-delete`` skips deletes.

``decode``: each line is a message; ``~`` is a tombstone, and ``b'…'`` has raw bytes in Python's
spelling. The output lists the rows as ``message kind column=value …`` without nulls, the bad
records with their reason, and the number of skipped messages. The test decodes the messages also
one by one, and expects the same result.

``key=a,b`` names the columns of the messages' key; by default they are the table's. ``key-text`` is
the text of a key. ``tell-columns`` adds the columns that the table or messages lack, each with the
number of such records and the first of them.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from stream_app.cdc.change_batch import TableTraits
from stream_app.cdc.message_format import MessageFormat
from stream_app.cdc.pipeline import StepPlace
from stream_app.cdc.pipeline_steps.insert_only_step import InsertOnlyStep
from stream_app.errors import StreamAppError
from tests.support.messages.debezium_messages import Value, a_format, messages, reasons_of, rows_of
from tests.support.suite.datadriven import Case, files, run_file


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
            assert self._case is not None
            if "tell-columns" not in self._case.args:
                together = [line for line in together if not _is_about_a_column(line)]
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
        """Check that each message decodes alike alone and beside the others."""
        parts = [_lines(self._format(), [value], key) for value in values]
        alone = [
            f"{index} {line.split(' ', 1)[1]}"
            for index, lines in enumerate(parts)
            for line in lines
            if line[0].isdigit()
        ]
        assert sorted(alone) == sorted(line for line in together if line[0].isdigit())
        assert sorted(_columns_of(parts)) == sorted(
            line for line in together if _is_about_a_column(line)
        )

    def _format(self) -> MessageFormat:
        assert self._case is not None
        args = dict(self._case.args)
        keys = [key for key in args.pop("key", "").split(",") if key]
        keep = args.pop("no-update-before", None) is None and bool(keys)
        args.pop("tell-columns", None)
        quarantines, ignores = (args.pop(w, None) == "" for w in ("quarantine", "ignore-delete"))
        columns = " ".join(self._case.input_lines)
        sequence = tuple(field for field in args.pop("sequence", "").split(",") if field)
        restored_names = frozenset(name for name in args.pop("restored", "").split(",") if name)
        traits = TableTraits(
            sequence_fields=sequence, ignores_deletes=ignores, restored_columns=restored_names
        )
        message_format = a_format(
            columns, keys, options=args, keeps_update_before=keep, traits=traits
        )
        if keys:
            return message_format
        last = InsertOnlyStep(quarantines_non_inserts=quarantines, ignores_deletes=ignores)
        return message_format.with_steps({StepPlace.INSERTS_ONLY: last})


def _is_about_a_column(line: str) -> bool:
    return line.startswith(("unknown column ", "missing column "))


def _columns_of(parts: list[list[str]]) -> Iterator[str]:
    """The lines about columns, added up over messages that were decoded alone."""
    indices_of_column: dict[str, list[int]] = {}
    for index, lines in enumerate(parts):
        for line in lines:
            if _is_about_a_column(line):
                indices_of_column.setdefault(line.split(":")[0], []).append(index)
    for column, places in indices_of_column.items():
        yield f"{column}: {len(places)}, first {places[0]}"


def _value(line: str) -> Value:
    if line == "~":
        return None
    return ast.literal_eval(line) if line.startswith("b'") else line


def _lines(decoder: MessageFormat, values: list[Value], key: str | None) -> list[str]:
    decoded_batch = decoder.decode(messages(*values, key=key))
    names = [name.replace("\0", "*") for name in decoded_batch.changes.rows.schema.names[1:]]
    lines = [
        f"{position} {kind} "
        + " ".join(
            f"{name}={value!r}" for name, value in zip(names, row, strict=True) if value is not None
        )
        for position, kind, *row in rows_of(decoded_batch)
    ]
    lines += [f"{position} bad: {reason}" for position, reason in reasons_of(decoded_batch).items()]
    lines += [
        f"{kind.value} column {name}: {sighting.record_count}, first {sighting.first_index}"
        for (kind, name), sighting in sorted(
            decoded_batch.drift.items(), key=lambda item: (item[0][0].value, item[0][1])
        )
    ]
    return [*lines, f"skipped {decoded_batch.skipped_count}"]


@pytest.mark.parametrize("path", files(Path(__file__).parent), ids=lambda path: path.stem)
def test_debezium_messages_become_row_changes(path: Path) -> None:
    run_file(path, _Tables().handle)
