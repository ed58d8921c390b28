"""Changes schemas, by commands and by messages, and compares the next schema or the refusal.

* ``table key=a partition=b option=value …`` sets the table, whose columns are the input. It has
  rows, unless it is ``empty``.
* ``alter``: each line is a change, as the arguments of ``stream-app alter``. The output lists what
  differs.
* ``show`` lists the columns of the table with their ids.
* ``messages options=…``: each line is a column that messages have, ``x TYPE [-- comment]``, or
  ``x ?`` if only its name is known. The command lists the changes and makes them.
* ``configure`` and ``goes_on`` take the options of a job's configuration.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from stream_app.app.cli.verbs.upkeep.alter import CHANGES, schema_changes
from stream_app.errors import UsageError
from stream_app.format.casting.rules import can_be_read_as
from stream_app.model.schema.data_type import STRING, parse_columns, parse_data_type
from stream_app.model.schema.table_only_options import option_differences, with_configured
from stream_app.model.schema.table_schema import TableSchema, new_table_schema
from stream_app.model.source.mapping_options import NO_MAPPING_OPTIONS, parse_mapping_options
from stream_app.model.source.source_table import SourceColumn, SourceTable
from stream_app.planning.commit.schema_conflicts import adoption_conflict
from stream_app.planning.schema.alteration import Casting, altered_schema
from stream_app.planning.schema.evolution import evolution, merge_types
from stream_app.planning.schema.option_changes import difference_fix
from stream_app.planning.schema.schema_changes import SchemaChange, schema_differences
from tests.support.suite.datadriven import Case, run_file

HERE = Path(__file__).parent
CASTING = Casting(can_cast=can_be_read_as, find_default_problem=lambda *_: None)


class _Table:
    """The interpreter: remembers the table."""

    first: TableSchema
    schema: TableSchema
    has_snapshots: bool

    def handle(self, case: Case) -> str:
        try:
            return str(getattr(self, case.command)(case))
        except UsageError as error:
            return str(error)

    def table(self, case: Case) -> str:
        args = dict(case.args)
        self.has_snapshots = args.pop("empty", None) is None
        key, partition = (
            tuple(filter(None, args.pop(name, "").split(","))) for name in ("key", "partition")
        )
        self.schema = new_table_schema(
            columns=parse_columns(case.input),
            primary_keys=key,
            partition_keys=partition,
            options=args,
            time_ms=0,
        )
        self.first = self.schema
        return "ok"

    def alter(self, case: Case) -> str:
        arguments = []
        for line in case.input_lines:
            name, *values = shlex.split(line)
            assert name in CHANGES or name == "--drop-primary-key", name
            arguments.append((name, values[0] if values else []))
        return self._changed(schema_changes(arguments))

    def _changed(self, changes: list[SchemaChange]) -> str:
        old = self.schema
        self.schema = altered_schema(
            old, changes, CASTING, has_snapshots=self.has_snapshots, time_ms=0
        )
        if self.schema is old:
            return "nothing differs"
        return "\n".join(schema_differences(old, self.schema))

    def show(self, _: Case) -> str:
        schema = self.schema
        lines = [f"schema {schema.schema_id}, highest field id {schema.highest_field_id}"]
        lines += [f"{column.field_id} {column.name} {column.data_type}" for column in schema.fields]
        lines += [f"{key} = {value}" for key, value in sorted(schema.options.items())]
        return "\n".join([*lines, f"key ({', '.join(schema.primary_keys)})"])

    def configure(self, case: Case) -> str:
        """Each line KEY=VALUE of a job's configuration: refused, or the job's options."""
        configured_options = dict(line.partition("=")[::2] for line in case.input_lines)
        options = self.schema.options
        if differences := option_differences(self.schema, configured_options):
            return "\n".join(
                [
                    *map(str, differences),
                    f"to fix: {difference_fix('shop.db/t', options, differences)}",
                ]
            )
        job = with_configured(options, configured_options)
        return "\n".join(f"{key} = {value}" for key, value in sorted(job.items()))

    def goes_on(self, case: Case) -> str:
        """A job of schema 0 and of a configuration, after `alter`: None, or why it ends."""
        configured_options = dict(line.partition("=")[::2] for line in case.input_lines)
        return str(adoption_conflict(self.first, self.schema, configured_options))

    def messages(self, case: Case) -> str:
        options = parse_mapping_options(case.args.get("options", "").split(","))
        source_table = SourceTable(columns=tuple(map(_source_column, case.input_lines)))
        made_columns = {
            name: set(filter(None, origins.split("+")))
            for name, _, origins in (text.partition(":") for text in case.args["made"].split(","))
        } if "made" in case.args else {}  # fmt: skip
        evolved_schema = evolution(self.schema, source_table, options, made_columns)
        return "\n".join(
            [self._changed(list(evolved_schema.changes)), *map(str, evolved_schema.kept_columns)]
        )

    def merge(self, case: Case) -> str:
        """Lines ``column's type <- source's type``."""
        options = parse_mapping_options(case.args.get("options", "").split(","))
        lines = []
        for line in case.input_lines:
            column, source_type = map(parse_data_type, line.split("<-"))
            merged_type = merge_types(column, source_type, options)
            lines.append(f"{line}: {merged_type.kind.value}, {merged_type.data_type}")
        return "\n".join(lines)


def _source_column(line: str) -> SourceColumn:
    text, _, comment = line.partition("--")
    name, kind = text.strip().split(" ", 1)
    if kind == "?":
        return SourceColumn(name=name, data_type=STRING, is_typed=False)
    data_type = parse_data_type(kind)
    return SourceColumn(name=name, data_type=data_type, comment=comment.strip() or None)


def test_alterations_give_the_next_schema_or_are_refused() -> None:
    run_file(HERE / "alterations.txt", _Table().handle)


def test_configured_options_that_the_table_has_are_not_a_change() -> None:
    run_file(HERE / "configured.txt", _Table().handle)


def test_columns_of_messages_widen_types_and_never_narrow_them() -> None:
    run_file(HERE / "evolution.txt", _Table().handle)


def test_messages_without_columns_change_nothing() -> None:
    schema = new_table_schema(
        columns=parse_columns("a INT"),
        primary_keys=(),
        partition_keys=(),
        options={},
        time_ms=0,
    )
    evolved_schema = evolution(schema, SourceTable(columns=()), NO_MAPPING_OPTIONS)
    assert (evolved_schema.changes, evolved_schema.kept_columns) == ((), ())
