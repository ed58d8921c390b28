"""Compares the requests and the configuration of the REST catalog's client, as text.

* ``changes``: each line is a change, as the arguments of ``stream-app alter``. The output is the
  JSON of Paimon's REST API.
* ``config``: the lines are ``default KEY=VALUE``, ``client …`` and ``override …``. The output lists
  the options that hold.
* ``statistics``: each line is a manifest's entry, ``ADD|DELETE PARTITION rows=… size=… made=…
  buckets=…``. The output lists what each partition gains.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from stream_app.app.cli.verbs.upkeep.alter import schema_changes
from stream_app.catalog.rest.rest_connection import merge_options
from stream_app.catalog.rest.schema_change_json import json_of_change
from stream_app.model.files.data_file_meta import EMPTY_ROW, EMPTY_STATS, DataFileMeta
from stream_app.model.files.manifest_entry import FileKind, ManifestEntry
from stream_app.planning.commit.partition_statistics import partition_statistics
from tests.support.suite.datadriven import Case, run_file

HERE = Path(__file__).parent
HOUR_MS = 3_600_000


def _changes(case: Case) -> str:
    lines = []
    for line in case.input_lines:
        name, *values = shlex.split(line)
        for change in schema_changes([(name, values[0] if values else [])]):
            lines.append(json.dumps(json_of_change(change)))
    return "\n".join(lines)


def _config(case: Case) -> str:
    layers: dict[str, dict[str, str]] = {"default": {}, "client": {}, "override": {}}
    for line in case.input_lines:
        layer, option = line.split(" ", 1)
        key, _, value = option.partition("=")
        layers[layer][key] = value
    config = {"defaults": layers["default"], "overrides": layers["override"]}
    merged_options = merge_options(config, layers["client"])
    return "\n".join(f"{key} = {value}" for key, value in sorted(merged_options.items()))


def _entry(line: str) -> ManifestEntry:
    kind, partition, *figures = line.split()
    figure = {name: int(value) for name, _, value in (text.partition("=") for text in figures)}
    return ManifestEntry(
        kind=FileKind[kind],
        partition=partition.encode(),
        bucket=0,
        total_buckets=figure["buckets"],
        file=DataFileMeta(
            file_name="data",
            file_size=figure["size"],
            row_count=figure["rows"],
            min_key=EMPTY_ROW,
            max_key=EMPTY_ROW,
            key_stats=EMPTY_STATS,
            value_stats=EMPTY_STATS,
            min_sequence_number=0,
            max_sequence_number=0,
            schema_id=0,
            level=0,
            creation_time_ms=figure.get("made"),
        ),
    )


def _statistics(case: Case) -> str:
    """The wall clock of the case shows one hour more than UTC."""
    gains = partition_statistics(
        map(_entry, case.input_lines),
        spec_of=lambda partition: {"day": partition.decode()},
        utc_ms_of=lambda wall_clock: wall_clock - HOUR_MS,
    )
    return "\n".join(
        f"{gain.spec['day']}: {gain.record_count} rows, {gain.file_size} bytes, "
        f"{gain.file_count} files, newest {gain.newest_file_time_ms}, {gain.total_buckets} buckets"
        for gain in gains
    )


COMMANDS = {"changes": _changes, "config": _config, "statistics": _statistics}


def test_the_rest_catalog_sends_changes_as_json() -> None:
    run_file(HERE / "rest.txt", lambda case: COMMANDS[case.command](case))
