"""``stream-app alter``: changes columns, options and comments of a table in one new schema."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace

from stream_app.app.cli.arguments.alter_arguments import add_schema_changes, schema_changes
from stream_app.app.cli.arguments.table import named_table
from stream_app.app.cli.verbs.upkeep.upkeep_frame import add_upkeep_arguments, run_upkeep
from stream_app.model.options.core_options import lasting_refusals
from stream_app.planning.schema.schema_changes import schema_differences
from stream_app.table.opening import open_for_altering
from stream_app.table.schema.alter import alter_table, next_schema

DESCRIPTION = "Change a table's columns, options and comments, as one new schema."
EPILOG = """\
The rows stay as they are: readers of every engine cast and fill older files. Running jobs of
stream-app take the new schema with their next epoch.

examples:
  stream-app alter warehouse/shop.db/orders --add-column "note STRING AFTER qty" --dry-run
  stream-app alter shop.orders --change-type "qty BIGINT" --rename-column note=remark
  stream-app alter shop.orders --set snapshot.time-retained=2h --unset num-levels"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    add_upkeep_arguments(parser)
    add_schema_changes(parser)


def run(args: argparse.Namespace) -> int:
    """Alter the table.

    Raises:
        UsageError: a change is not possible; nothing was changed.
        UnsupportedTableError: stream_app cannot write the table.
    """
    changes = schema_changes(args.changes)
    table = named_table(args.table)
    new = next_schema(table, changes)
    # An ALTER may remove what prevents writing, except what matters for files and rows.
    options = {**new.options, **lasting_refusals(table.schema.options)}
    open_for_altering(replace(table, schema=replace(new, options=options)))

    def do() -> Iterator[str]:
        yield f"the table has schema {alter_table(table, changes).schema_id}"

    is_empty = new.schema_id == table.schema.schema_id
    return run_upkeep(args, schema_differences(table.schema, new), do, is_empty=is_empty)
