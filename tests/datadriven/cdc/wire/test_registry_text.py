"""Decodes messages whose schema is in a registry, as text.

* ``schema NUMBER`` adds a schema, of ``kind=PROTOBUF`` or ``kind=JSON``; ``refers=a,b`` names its
  references. ``reference NAME`` adds a schema to which others refer.
* ``table format=NAME key=a,b``, with options of the format, sets the table, whose columns are the
  input.
* ``decode``: each line is a message, ``NUMBER VALUE``, with the value as JSON. A key precedes
  ``=>``. ``~`` is a tombstone, and ``b'…'`` has raw bytes in Python's spelling. The output lists
  the rows, the bad records with their reason, and the number of skipped messages. The test decodes
  the messages also one by one, and expects the same result.
* ``describe`` shows the columns and the key that the messages describe.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stream_app.cdc.message_format import MessageFormat
from stream_app.errors import StreamAppError
from stream_app.message_format_registry import make_source_extractor
from stream_app.model.source.mapping_options import MappingOptions
from tests.support.brokers.schema_registry import Registry, answer_of, schema_registry
from tests.support.messages.avro_events import batch
from tests.support.messages.debezium_messages import a_format, reasons_of, rows_of
from tests.support.messages.registered_messages import encoded_json
from tests.support.suite.datadriven import Case, files, run_file


class _Tables:
    """The interpreter: remembers schemas, and the table of the last ``table`` command."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._name = ""
        self._args: dict[str, str] = {}
        self._columns = ""
        self._references: dict[str, dict[str, Any]] = {}

    def handle(self, case: Case) -> str:
        try:
            return self._handled(case)
        except StreamAppError as error:
            return str(error).replace(self._registry.url, "URL")

    def _handled(self, case: Case) -> str:
        text = "\n".join(case.input_lines)
        args = dict(case.args)
        match case.command:
            case "schema" | "reference":
                kind = args.pop("kind", "AVRO")
                refers = [name for name in args.pop("refers", "").split(",") if name]
                more: dict[str, Any] = {} if kind == "AVRO" else {"schemaType": kind}
                if refers:
                    more["references"] = [
                        self._references.get(name, {"name": name, "subject": name, "version": 1})
                        for name in refers
                    ]
                [name] = args
                if case.command == "schema":
                    self._registry.schemas[int(name)] = answer_of(text, **more)
                else:
                    self._references[name] = self._registry.refer(name, text, **more)
                return "ok"
            case "table":
                self._name, self._args = args.pop("format"), args
                self._columns = " ".join(case.input_lines)
                self._format()
                return "ok"
            case "decode":
                return "\n".join(self._decoded(self._messages(case)))
            case _:
                assert case.command == "describe", case.command
                return self._described(self._messages(case))

    def _messages(self, case: Case) -> pa.RecordBatch:
        pairs = [self._message(line) for line in case.input_lines]
        return batch([value for _, value in pairs], [key for key, _ in pairs])

    def _message(self, line: str) -> tuple[bytes | None, bytes | None]:
        key, arrow, value = line.rpartition("=>")
        return self._bytes(key.strip()) if arrow else None, self._bytes(value.strip())

    def _bytes(self, text: str) -> bytes | None:
        if text == "~":
            return None
        if text.startswith("b'"):
            raw: bytes = ast.literal_eval(text)
            return raw
        number, _, value = text.partition(" ")
        return encoded_json(self._registry, int(number), json.loads(value))

    def _options(self) -> dict[str, str]:
        options = {name: value for name, value in self._args.items() if name != "key"}
        return {"schema.registry.url": self._registry.url, **options}

    def _format(self) -> MessageFormat:
        keys = [key for key in self._args.get("key", "").split(",") if key]
        return a_format(self._columns, keys, name=self._name, options=self._options())

    def _decoded(self, messages: pa.RecordBatch) -> list[str]:
        together = [*_lines(self._format(), messages)]
        alone = [
            f"{index} {line.partition(' ')[2]}"
            for index in range(messages.num_rows)
            for line in _lines(self._format(), messages.slice(index, 1))
            if line[0].isdigit()
        ]
        assert sorted(alone) == sorted(line for line in together if line[0].isdigit())
        return together

    def _described(self, messages: pa.RecordBatch) -> str:
        table = make_source_extractor(self._name, self._options()).describe(
            messages, MappingOptions()
        )
        if table is None:
            return "nothing"
        lines = [
            f"{column.name} {column.data_type}"
            + (f" -- {column.comment}" if column.comment else "")
            for column in table.columns
        ]
        return "\n".join([*lines, f"key ({', '.join(table.primary_keys)})"])


def _lines(decoder: MessageFormat, messages: pa.RecordBatch) -> Iterator[str]:
    decoded_batch = decoder.decode(messages)
    names = decoded_batch.changes.rows.schema.names[1:]
    for position, kind, *row in rows_of(decoded_batch):
        cells = (
            f"{name}={value!r}" for name, value in zip(names, row, strict=True) if value is not None
        )
        yield f"{position} {kind} {' '.join(cells)}"
    offsets = messages.column("offset").to_pylist()
    for position, reason in reasons_of(decoded_batch).items():
        yield f"{offsets.index(position) if position in offsets else position} bad: {reason}"
    for (kind, name), sighting in sorted(
        decoded_batch.drift.items(), key=lambda item: (item[0][0].value, item[0][1])
    ):
        count, first = sighting.record_count, sighting.first_index
        yield f"{kind.value} column {name}: {count}, first {first}"
    yield f"skipped {decoded_batch.skipped_count}"


@pytest.mark.parametrize("path", files(Path(__file__).parent), ids=lambda path: path.stem)
def test_messages_are_decoded_by_the_schemas_of_a_registry(path: Path) -> None:
    with schema_registry() as registry:
        run_file(path, _Tables(registry).handle)
