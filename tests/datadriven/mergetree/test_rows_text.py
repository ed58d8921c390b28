"""Merges rows and compacts files of rows, and compares the merged rows and files as text.

A row is written ``+U k=1 v=a #7``: its kind, its columns, and its sequence number. Rows without a
sequence number are numbered in their order.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stream_app.mergetree.changelog.before_row_lookup import (
    BeforeRowLookup,
    FullCompactionChangelog,
    HigherLevelLookup,
    LookupChangelog,
)
from stream_app.mergetree.changelog.changelog_rewriter import ChangelogRewriter
from stream_app.mergetree.compact.compact_manager import files_above
from stream_app.mergetree.compact.compact_rewriter import CompactRewriter
from stream_app.mergetree.compact.compact_task import CompactTask, Rewriter
from stream_app.mergetree.compact.record_level_expire import RecordLevelExpire
from stream_app.mergetree.key_value_batch import KeyValueLayout
from stream_app.mergetree.levels import Levels
from stream_app.mergetree.merge_engines.deduplicate import Deduplicate
from stream_app.mergetree.merge_window import MergeWindow, sorted_window
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.compact_request import CompactRequest, CompactUnit
from stream_app.model.files.data_file_meta import DataFileMeta, FileSource
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND
from tests.support.suite.datadriven import Case, run_file
from tests.support.tables.lsm_files import INT_KEY, MemoryFiles, a_layout

HERE = Path(__file__).parent
KINDS = {kind.short: kind for kind in RowKind}
COLUMNS = "k INT NOT NULL, v STRING, ts INT, n INT"


def row_of(line: str, number: int) -> dict[str, Any]:
    kind, *words = line.split()
    row: dict[str, Any] = {SEQUENCE_NUMBER: number, VALUE_KIND: int(KINDS[kind])}
    for word in words:
        if word.startswith("#"):
            row[SEQUENCE_NUMBER] = int(word[1:])
            continue
        name, _, value = word.partition("=")
        row[name] = None if value == "null" else value if name == "v" else int(value)
    return row


def batch_of(lines: list[str], layout: KeyValueLayout) -> pa.RecordBatch:
    rows = [row_of(line, number) for number, line in enumerate(lines, 1)]
    return pa.RecordBatch.from_pylist(rows, schema=layout.schema)


def show_row(row: dict[str, Any]) -> str:
    columns = [
        f"{name}={'null' if value is None else value}"
        for name, value in row.items()
        if name not in (SEQUENCE_NUMBER, VALUE_KIND, "ts", "n") or (name in ("ts", "n") and value)
    ]
    kind = RowKind(row[VALUE_KIND]).short
    return f"{kind} {' '.join(columns)} #{row[SEQUENCE_NUMBER]}"


def merge(case: Case) -> str:
    fields = tuple(name for name in case.args.get("sequence-field", "").split(",") if name)
    layout = a_layout(
        COLUMNS, "k", sequence_fields=fields, is_sequence_descending="descending" in case.args
    )
    batch = batch_of(list(case.input_lines), layout)
    engine = Deduplicate(ignores_deletes="ignore-delete" in case.args)
    window = sorted_window(batch, layout)
    merged_batch = engine.merge(window, layout)
    # The same rows in order already must come out the same.
    in_order = batch.take(pa.array(window.order))
    assert engine.merge(MergeWindow(in_order), layout).equals(merged_batch)
    again = sorted_window(in_order, layout)
    assert again.order is not None
    assert again.is_last is not None
    assert np.array_equal(again.order, np.arange(batch.num_rows))
    assert np.array_equal(again.is_last, MergeWindow(in_order).is_last_row(layout))
    return "\n".join(show_row(row) for row in merged_batch.to_pylist())


def compact(case: Case) -> str:
    """Files, each ``f1 L0 size=10`` and its rows indented; what becomes of them.

    With ``changelog=…``, files of levels above the output are those in which rows are looked up.
    """
    layout = a_layout(COLUMNS, "k")
    files = MemoryFiles(layout, INT_KEY, rows_per_file=int(case.args.get("rows-per-file", 1000)))
    output = int(case.args["output"])
    stored_files = store_files(case, layout, files)
    runs = Levels(stored_files, num_levels=6, key_of=files.key_of).level_sorted_runs()
    metas = [file for file in stored_files if file.level <= output]
    unit = CompactUnit(output, tuple(metas), "")
    input_names = set(files.stored_batches)
    bound = int(case.args.get("expire-before", 0))
    request = CompactRequest(
        partition=b"",
        bucket=0,
        unit=unit,
        drops_deletes="drop-deletes" in case.args,
        max_level=int(case.args.get("max-level", 5)),
        rewrites_all="rewrite-all" in case.args,
    )
    merging = CompactRewriter(
        layout,
        Deduplicate(),
        files,
        record_level_expire=RecordLevelExpire("ts", bound) if bound else None,
        fan_in=int(case.args.get("fan-in", 32)),
    )
    above = HigherLevelLookup(layout, files, files_above(runs, unit, files.key_of), files.key_of)
    task = CompactTask(
        request=request,
        rewriter=telling(case, merging, request, above),
        key_of=files.key_of,
        file_size_min=int(case.args["min-size"]),
        must_rewrite=lambda file: file.file_name in case.args.get("stale", "").split(","),
    )
    result = task.run()
    assert files.open_writers == 0
    assert input_names <= set(files.stored_batches), "input files are the committer's to forget"
    return show_result(result, files)


def telling(
    case: Case,
    merging: CompactRewriter,
    request: CompactRequest,
    above: HigherLevelLookup,
) -> Rewriter:
    layout = merging.layout
    before: BeforeRowLookup
    match case.args.get("changelog"):
        case "lookup":
            before = LookupChangelog(layout, request.max_level, above, keeps_newest=True)
        case "full":
            before = FullCompactionChangelog(request.max_level)
        case _:
            return merging
    ignored_names = frozenset(case.args.get("ignored", "").split(","))
    return ChangelogRewriter(
        merging,
        before,
        records_unchanged="changed-only" not in case.args,
        ignored_columns=ignored_names,
    )


def store_files(case: Case, layout: KeyValueLayout, files: MemoryFiles) -> list[DataFileMeta]:
    blocks: list[list[str]] = []
    for line in case.input_lines:
        if line.startswith(" "):
            blocks[-1].append(line.strip())
        else:
            blocks.append([line])
    metas = []
    for header, *rows in blocks:
        name, level, size = header.split()
        meta = files.store(name, batch_of(rows, layout), int(level[1:]), FileSource.APPEND)
        changed_fields = {"file_size": int(size.removeprefix("size="))}
        metas.append(
            DataFileMeta(
                **{field: getattr(meta, field) for field in meta.__slots__} | changed_fields
            )
        )
    return metas


def show_result(result: BucketChange, files: MemoryFiles) -> str:
    after = {file.file_name: file for file in result.added_files}
    upgraded_files = [file for file in result.removed_files if file.file_name in after]
    replaced_names = [
        file.file_name for file in result.removed_files if file.file_name not in after
    ]
    lines = [
        f"{file.file_name}: level {file.level} → {after[file.file_name].level}, not rewritten"
        for file in upgraded_files
    ]
    lines += [f"replaced: {' '.join(replaced_names)}"] if replaced_names else []
    for file in result.written_files:
        lines.append(f"{file.file_name} L{file.level}, {file.delete_row_count} deletes")
        lines += [f"  {show_row(row)}" for row in files.rows_of([file])]
    return "\n".join(lines) or "nothing"


@pytest.mark.parametrize("name", ["merge", "compact_task", "changelog"])
def test_rows_are_merged_and_compacted(name: str) -> None:
    commands = {"merge": merge, "compact": compact}
    run_file(HERE / f"{name}.txt", lambda case: commands[case.command](case))
