"""Decodes messages to whole rows, with the made columns and the filter of a configuration.

* ``table [option=value …]``: the input has the keys of ``[table]``; the options are Debezium's.
* ``decode [key=a,b]``: each line is a message, whose key has these columns. The output lists the
  rows as ``message kind column=value …`` without nulls, and the bad records.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa

from stream_app.app.config.app_config import load_config
from stream_app.app.table_setup.single_table_setup import configured_schema
from stream_app.app.table_setup.table_pipeline import RowSettings
from stream_app.cdc.message_format import MessageFormat
from stream_app.cdc.pipeline import StepPlace
from stream_app.clock import SystemClock
from stream_app.errors import StreamAppError
from tests.support.jobs.table_section import table_section
from tests.support.messages.debezium_messages import messages, reasons_of, rows_of
from tests.support.suite.datadriven import Case, run_file

_REST = """
[source]
bootstrap-servers = "127.0.0.1:9092"
topics = ["shop"]
{options}
[stream]
checkpoint = "./checkpoint"
quarantine = "./quarantine"
[table]
warehouse = "./warehouse"
name = "t"
{table}
"""


def test_change_events_become_rows_with_computed_columns(tmp_path: Path) -> None:
    run_file(Path(__file__).with_name("rows.txt"), _Tables(tmp_path / "job.toml").handle)


def test_deletes_whose_partition_is_uncertain_are_quarantined(tmp_path: Path) -> None:
    run_file(Path(__file__).with_name("located.txt"), _Tables(tmp_path / "job.toml").handle)


class _Tables:
    """The interpreter: remembers the format of the last ``table`` command."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._format: MessageFormat | None = None

    def handle(self, case: Case) -> str:
        try:
            return self._table(case) if case.command == "table" else self._decode(case)
        except StreamAppError as error:
            return str(error).replace(str(self._file), "job.toml")

    def _table(self, case: Case) -> str:
        options = "\n".join(f'debezium."{key}" = "{value}"' for key, value in case.args.items())
        self._file.write_text(_REST.format(options=options, table=case.input))
        config = load_config(self._file, [], {})
        schema = configured_schema(table_section(config), SystemClock())
        rows = RowSettings(
            source_config=config.source, table_config=table_section(config), schema=schema,
            left_out_steps=frozenset({StepPlace.INSERTS_ONLY}),
        )  # fmt: skip
        self._format = rows.pipeline()
        keys = f" key {', '.join(schema.primary_keys)}" if schema.primary_keys else ""
        return ", ".join(f"{field.name} {field.data_type}" for field in schema.fields) + keys

    def _decode(self, case: Case) -> str:
        assert self._format is not None
        key = case.args.get("key", "")
        batch = messages(
            *(None if line == "~" else line for line in case.input_lines),
            topic="shop",
            partition=3,
            key=json.dumps(dict.fromkeys(key.split(","), 0)) if key else None,
        )
        stamps = pa.array([1500 * 1000] * batch.num_rows, pa.int64()).view(
            pa.timestamp("us", "UTC")
        )
        batch = batch.set_column(batch.schema.get_field_index("timestamp"), "timestamp", stamps)
        decoded_batch = self._format.decode(batch)
        names = decoded_batch.changes.rows.schema.names[1:]
        lines = [
            f"{position} {kind} "
            + " ".join(
                f"{name}={_value_text(value)}"
                for name, value in zip(names, row, strict=True)
                if value is not None
            )
            for position, kind, *row in rows_of(decoded_batch)
        ]
        lines += [
            f"{position} bad: {reason}" for position, reason in reasons_of(decoded_batch).items()
        ]
        return "\n".join([*lines, f"skipped {decoded_batch.skipped_count}"])


def _value_text(value: object) -> str:
    return repr(value) if isinstance(value, str | int) else f"'{value}'"
