"""Parses types, options and definitions of tables, and compares their meaning or their problems."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from stream_app.errors import StreamAppError, UsageError
from stream_app.model.options.core_options import (
    CoreOptions,
    check_purpose,
    check_writable,
    option_problems,
)
from stream_app.model.options.option_support import Purpose, ignored_options
from stream_app.model.schema.data_type import DataType, parse_columns, parse_data_type
from stream_app.model.schema.merge.refusal_rules import refusal_rules, retract_notices
from stream_app.model.schema.table_schema import new_table_schema, schema_problems
from tests.support.suite.datadriven import Case, files, run_file


def types(case: Case) -> str:
    """Each line a type: how we write it, and what is not the default in it."""
    return "\n".join(f"{line} -> {_meaning(line)}" for line in case.input_lines)


def _meaning(text: str) -> str:
    try:
        parsed_type = parse_data_type(text)
    except UsageError:
        return "no type"
    plain = DataType(root=parsed_type.root)
    parts = [
        f"{field.name}={getattr(parsed_type, field.name)}"
        for field in fields(DataType)
        if getattr(parsed_type, field.name) != getattr(plain, field.name)
    ]
    return " ".join([str(parsed_type), f"({parsed_type.root.name}", *parts]) + ")"


def columns(case: Case) -> str:
    """A definition as in the configuration: the columns with their ids."""
    return "\n".join(
        f"{column.field_id} {column.name}: {column.data_type}"
        for column in parse_columns(case.input)
    )


def options(case: Case) -> str:
    """Each line KEY=VALUE of a new table: the problems."""
    return "\n".join(option_problems(_pairs(case))) or "fine"


def writable(case: Case) -> str:
    """Each line KEY=VALUE of an existing table."""
    check_writable(_pairs(case), () if "append" in case.args else ("k",))
    return "fine"


def purpose(case: Case) -> str:
    """Each line KEY=VALUE of an existing table: whether it stands in the way of a purpose."""
    [name] = case.args
    check_purpose(_pairs(case), Purpose[name.upper()])
    return "fine"


def ignored(case: Case) -> str:
    """Each line KEY=VALUE of a table: the keys on which a job does not act."""
    return "\n".join(ignored_options(_pairs(case))) or "none"


def values(case: Case) -> str:
    """Return the values of the properties that the arguments name, by a table's options."""
    core = CoreOptions(_pairs(case))
    return "\n".join(f"{name}: {getattr(core, name)}" for name in case.args)


def table(case: Case) -> str:
    """A table's definition: its keys, or the problems."""
    args = dict(case.args)
    primary_keys, partition_keys = (
        tuple(part for part in args.pop(name, "").split(",") if part) for name in ("key", "by")
    )
    definition = parse_columns(case.input)
    problems = schema_problems(definition, primary_keys, partition_keys, args)
    if problems:
        return "\n".join(problems)
    schema = new_table_schema(
        columns=definition,
        primary_keys=primary_keys,
        partition_keys=partition_keys,
        options=args,
        time_ms=0,
    )
    lines = [f"{column.name} {column.data_type}" for column in schema.fields]
    keys = ", ".join(schema.bucket_keys)
    lines += [f"bucket by {keys}" if schema.kind_traits.has_buckets else "no buckets"]
    keys = ", ".join(schema.trimmed_primary_keys)
    lines += [f"sorted by {keys}" if keys else "not sorted"]
    lines += [f"files of {schema.target_file_size}, small below {schema.compaction_file_size}"]
    lines += [f"newest by {', '.join(schema.sequence_fields)}"] if schema.sequence_fields else []
    return "\n".join(lines)


def documented(case: Case) -> str:
    """A table of Paimon's documentation, columns and then options: taken, or the problems."""
    keys, parts = (
        tuple(part for part in case.args.get(name, "").split(",") if part) for name in ("key", "by")
    )
    columns, *lines = case.input_lines
    of_table = dict(line.partition("=")[::2] for line in lines)
    problems = option_problems(of_table)
    try:
        problems += schema_problems(parse_columns(columns), keys, parts, of_table)
    except UsageError as error:
        problems.append(error.problem)
    return "\n".join(problems) or "taken"


def undone(case: Case) -> str:
    """A table's definition: changes that its rows cannot be merged with, and the ways out."""
    args = dict(case.args)
    keys = tuple(args.pop("key", "").split(","))
    notices = retract_notices(refusal_rules(parse_columns(case.input), keys, args))
    return (
        "\n".join(f"{notice.problem}\n  to fix: {notice.fix}" for notice in notices) or "none fails"
    )


def _pairs(case: Case) -> dict[str, str]:
    return dict(line.partition("=")[::2] for line in case.input_lines)


COMMANDS = {
    command.__name__: command
    for command in (
        *(types, columns, options, writable, purpose, ignored, values, table, documented, undone),
    )
}


def handle(case: Case) -> str:
    try:
        return COMMANDS[case.command](case)
    except StreamAppError as error:
        return str(error)


@pytest.mark.parametrize("path", files(Path(__file__).parent), ids=lambda path: path.stem)
def test_types_options_and_table_definitions_are_parsed(path: Path) -> None:
    run_file(path, handle)
