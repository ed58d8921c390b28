"""Decides which tables of a source a job takes, how it names them, and which keys they get.

``tables merge-shards=… including-tables=… table-mapping=a:b,c:d …``: each line is a source table,
``database.table``, ``database.schema.table`` or ``table``. It is decided beside those above it.

``named`` takes the same rules, and names of tables of the job. The output says whether a table may
have the name.

``shards`` takes source tables whose rows go into one table, and shows how they differ.

``new table=… key=… primary-keys=… [own-primary-keys=…] …`` takes the columns of a new table.
"""

from __future__ import annotations

from pathlib import Path

from stream_app.errors import UsageError
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.source.origin import Origin, ghost_of
from stream_app.model.source.source_table import SourceColumn, SourceTable
from stream_app.planning.sync.named_tables import unreachable_reason
from stream_app.planning.sync.new_tables import NewTable, TableOverrides, TableRules, new_table
from stream_app.planning.sync.shard_differences import shard_differences
from stream_app.planning.sync.table_share import TableShare
from stream_app.planning.sync.target_tables import (
    GhostTable,
    LeftOutTable,
    SyncRules,
    TargetTable,
    decide_target,
)
from tests.support.suite.datadriven import Case, run_file

HERE = Path(__file__).parent


def _pairs(text: str) -> dict[str, str]:
    return dict(pair.split(":") for pair in text.split(",") if pair)


def _origin(line: str) -> Origin:
    cluster, _, name = line.rpartition("/") if line.startswith("eu/") else ("", "", line)
    *before, table = name.split(".")
    database, schema = [*before, "", ""][:2]
    return Origin(database, schema, table, cluster)


def _rules(case: Case) -> SyncRules:
    arguments = case.args
    return SyncRules(
        including_tables=arguments.get("including-tables", ".*"),
        excluding_tables=arguments.get("excluding-tables"),
        including_dbs=arguments.get("including-dbs", ".*"),
        excluding_dbs=arguments.get("excluding-dbs"),
        table_prefix=arguments.get("table-prefix", ""),
        table_suffix=arguments.get("table-suffix", ""),
        table_prefix_db=_pairs(arguments.get("table-prefix-db", "")),
        table_suffix_db=_pairs(arguments.get("table-suffix-db", "")),
        table_mapping=_pairs(arguments.get("table-mapping", "")),
        merge_shards=arguments.get("merge-shards", "true") == "true",
        case_sensitive=arguments.get("case-sensitive", "true") == "true",
        share=TableShare.parse(arguments.get("share", "")),
    )


def _tables(case: Case) -> str:
    rules = _rules(case)
    targets: dict[Origin, str] = {}
    shown = []
    for line in case.input_lines:
        origin = _origin(line)
        decision = decide_target(rules, origin, targets)
        if isinstance(decision, TargetTable):
            targets[origin] = decision.name
            assert unreachable_reason(rules, decision.name) == "", "some table has the name"
            shown.append(f"{line} → {decision.name}")
        elif isinstance(decision, LeftOutTable):
            shown.append(f"{line} is left out")
        elif isinstance(decision, GhostTable):
            shown.append(f"{line} is a ghost of {ghost_of(origin.table)}")
        else:
            shown += [f"{line} is refused: {decision.reason}", f"  to fix: {decision.fix}"]
    return "\n".join(shown)


def _named(case: Case) -> str:
    rules = _rules(case)
    reasons = {name: unreachable_reason(rules, name) for name in case.input_lines}
    return "\n".join(f"{name}: {why or 'may be'}" for name, why in reasons.items())


def _names(case: Case, key: str) -> tuple[str, ...] | None:
    return tuple(filter(None, case.args[key].split(","))) if key in case.args else None


def _new(case: Case) -> str:
    multiple = _pairs(case.args.get("multiple-table-partition-keys", "").replace("+", ";"))
    rules = TableRules(
        primary_keys=_names(case, "primary-keys") or (),
        partition_keys=_names(case, "partition-keys") or (),
        multiple_table_partition_keys={
            name: tuple(keys.split(";")) for name, keys in multiple.items()
        },
        copies_source_keys=case.args.get("from-source", "true") == "true",
        options=_pairs(case.args.get("options", "")),
        table_overrides={
            "own": TableOverrides(
                primary_keys=_names(case, "own-primary-keys"),
                partition_keys=_names(case, "own-partition-keys"),
                options=_pairs(case.args.get("own-options", "")),
            )
        },
    )
    table = case.args.get("table", "t")
    origin = Origin("db", "", case.args.get("source", table))
    try:
        created_table = new_table(
            rules, table, origin, case.input.split(), _names(case, "key") or ()
        )
    except UsageError as error:
        return str(error)
    return "\n".join(_shown(created_table))


def _shards(case: Case) -> str:
    """Lines ``shard: name TYPE, name TYPE; key`` of source tables."""
    shards = {}
    for line in case.input_lines:
        name, _, description = line.partition(": ")
        columns, _, keys = description.partition("; ")
        shards[name] = SourceTable(
            columns=tuple(
                SourceColumn(name=column.name, data_type=column.data_type)
                for column in parse_columns(columns)
            ),
            primary_keys=tuple(keys.split()),
        )
    return shard_differences(shards) or "nothing differs"


def _shown(table: NewTable) -> list[str]:
    options = table.options
    return [
        f"primary keys: {', '.join(table.primary_keys) or 'none'}",
        f"partition keys: {', '.join(table.partition_keys) or 'none'}",
        f"options: {', '.join(f'{key} = {value}' for key, value in options.items()) or 'none'}",
        *(f"told: {remark}" for remark in table.remarks),
    ]


def test_source_tables_are_chosen_named_and_given_keys() -> None:
    def handle(case: Case) -> str:
        return {"tables": _tables, "named": _named, "new": _new, "shards": _shards}[case.command](
            case
        )

    run_file(HERE / "sync.txt", handle)
