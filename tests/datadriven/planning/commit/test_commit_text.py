"""Decides which entries of manifests are live, merged or refused, as text.

An entry is written ``+f1 1-9 L5 bucket=1 of=4 dt=a``: + for ADD or - for DELETE, the name, the
least and the greatest key (needed above level 0), the level, the bucket, the number of buckets, and
the partition.

An index file is written ``+i1(d1 d2) bucket=1`` if it has the deletion vectors of data files d1 and
d2, and ``HASH:h1`` if it has another type. An index file that exists already has neither + nor -.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from stream_app.format.binary_row import serialize_row
from stream_app.model.files.bucket_change import LookupFiles
from stream_app.model.files.data_file_meta import EMPTY_STATS
from stream_app.model.files.index_file_meta import (
    DELETION_VECTORS,
    DeletionVectorMeta,
    IndexFileMeta,
    IndexManifestEntry,
)
from stream_app.model.files.manifest_entry import FileKind, ManifestEntry, ManifestFileMeta
from stream_app.model.snapshot import CommitKind
from stream_app.planning.commit.conflict_detection import (
    SnapshotDelta,
    cause_and_fix,
    find_conflicts,
)
from stream_app.planning.commit.index_changes import choose_rewrites, combine_index, index_conflict
from stream_app.planning.commit.live_entries import compacted_entries, live_entries
from stream_app.planning.commit.merged_manifests import full_merge_names, manifest_groups
from tests.support.suite.datadriven import Case, run_file
from tests.support.suite.manifest_texts import PARTITION, entry_of, show
from tests.support.tables.lsm_files import int_key_of

HERE = Path(__file__).parent


def live(case: Case) -> str:
    return "\n".join(show(e) for e in live_entries(map(entry_of, case.input_lines))) or "none"


def compacted(case: Case) -> str:
    """Return the compacted entries, after a check that they leave the same files live."""
    entries = [entry_of(line) for line in case.input_lines]
    remaining_entries = compacted_entries(entries)
    assert live_entries(remaining_entries) == live_entries(entries)
    return "\n".join(map(show, remaining_entries)) or "none"


def groups(case: Case) -> str:
    """Sizes of manifests, oldest first; a group in brackets is merged."""
    sizes = [int(word) for word in case.input.split()]
    metas = [
        ManifestFileMeta(
            file_name=str(index), file_size=size, num_added_files=1, num_deleted_files=0,
            partition_stats=EMPTY_STATS, schema_id=0,
        )
        for index, size in enumerate(sizes)
    ]  # fmt: skip
    groups = manifest_groups(
        metas, target_size=int(case.args["target"]), count_min=int(case.args["at-least"])
    )
    assert [meta for group in groups for meta in group] == metas
    texts = [" ".join(str(meta.file_size) for meta in group) for group in groups]
    drawn = [f"[{t}]" if len(g) > 1 else t for t, g in zip(texts, groups, strict=True)]
    return " ".join(drawn) or "nothing"


def full(case: Case) -> str:
    """Sizes of manifests, oldest first, ``40-`` with DELETEs; what a full merge rewrites."""
    metas = [
        ManifestFileMeta(
            file_name=f"{index}:{word}", file_size=int(word.rstrip("-")), num_added_files=1,
            num_deleted_files=int(word.endswith("-")), partition_stats=EMPTY_STATS, schema_id=0,
        )
        for index, word in enumerate(case.input.split())
    ]  # fmt: skip
    merge = full_merge_names(
        metas, target_size=int(case.args["target"]), threshold=int(case.args["threshold"])
    )
    names = [meta.file_name.partition(":")[2] for meta in metas if meta.file_name in merge]
    return " ".join(names) or "not due"


def conflict(case: Case) -> str:
    """Files that are there, or snapshots with what they changed; ``commit``, and what is to come.

    ``looked-up=f2,f3 output=3``: files above a level in which older rows were looked up. Each
    conflict with its error: what happened, and what to do.
    """
    lines = list(case.input_lines)
    index = lines.index("commit")
    base, history = snapshots_of(lines[:index])
    changes = [entry_of(line) for line in lines[index + 1 :]]
    bucket_lookups = []
    if "output" in case.args:
        names = frozenset(filter(None, case.args["looked-up"].split(",")))
        searched_files = LookupFiles(output_level=int(case.args["output"]), names=names)
        bucket_lookups = [(changes[0].bucket_id, searched_files)]
    conflicts = find_conflicts(live_entries(base), changes, int_key_of, bucket_lookups)
    verdict = []
    for clash in conflicts:
        message, fix = cause_and_fix(clash, reversed(history))
        verdict += [message] if "brief" in case.args else [message, f"  to fix: {fix}"]
    return "\n".join(verdict) or "may be committed"


def snapshots_of(lines: Sequence[str]) -> tuple[list[ManifestEntry], list[SnapshotDelta]]:
    """A heading is ``snapshot 7 COMPACT by bob``; lines above the first have no snapshot."""
    base: list[ManifestEntry] = []
    history: list[SnapshotDelta] = []
    for line in lines:
        if line.startswith("snapshot "):
            _, number, kind, _, user = line.split()
            history.append(
                SnapshotDelta(
                    snapshot_id=int(number),
                    commit_kind=CommitKind[kind],
                    commit_user=user,
                    entries=[],
                )
            )
            continue
        base.append(entry_of(line))
        if history:
            last = history.pop()
            history.append(replace(last, entries=[*last.entries, base[-1]]))
    return base, history


def index_entry_of(line: str) -> IndexManifestEntry:
    match = re.fullmatch(r"([+-]?)(?:(\w+):)?(\w+)(?:\((.*)\))?(?: bucket=(\d+))?", line)
    assert match is not None, line
    sign, index_type, name, data_files, bucket = match.groups()
    vectors = tuple(
        DeletionVectorMeta(data_file_name=data_file, offset=1, length=22, cardinality=1)
        for data_file in (data_files or "").split()
    )
    return IndexManifestEntry(
        kind=FileKind.DELETE if sign == "-" else FileKind.ADD,
        partition=serialize_row(["a"], PARTITION),
        bucket=int(bucket or 0),
        index_file=IndexFileMeta(
            index_type=index_type or DELETION_VECTORS,
            file_name=name,
            file_size=1,
            row_count=len(vectors),
            deletion_vectors=None if index_type else vectors,
        ),
    )


def show_index(entry: IndexManifestEntry) -> str:
    file = entry.index_file
    if not entry.holds_deletion_vectors:
        return f"{file.index_type}:{file.file_name}"
    return f"{file.file_name}({' '.join(file.data_file_names)})"


def names_in(case: Case, key: str) -> list[str]:
    return [name for name in case.args.get(key, "").split(",") if name]


def rewrite(case: Case) -> str:
    rewritten = choose_rewrites(
        [index_entry_of(line) for line in case.input_lines],
        deleted_names=names_in(case, "gone"),
        changed_names=names_in(case, "changed"),
        needs_one_file="in-one-file" in case.args,
    )
    lines = []
    for file in rewritten:
        moves = f", {' '.join(file.moved_names)} move{'s' if len(file.moved_names) == 1 else ''}"
        lines.append(
            f"{file.entry.index_file.file_name} goes" + (moves if file.moved_names else "")
        )
    return "\n".join(lines) or "nothing"


def combined(case: Case) -> str:
    base, changes = _index_commit(case)
    return "\n".join(map(show_index, combine_index(base, changes))) or "none"


def index_conflicts(case: Case) -> str:
    base, changes = _index_commit(case)
    conflict = index_conflict(
        base,
        changes,
        deleted_names=names_in(case, "deleted"),
        live_names=names_in(case, "live"),
        needs_one_file="in-one-file" in case.args,
    )
    return conflict or "may be committed"


def _index_commit(case: Case) -> tuple[list[IndexManifestEntry], list[IndexManifestEntry]]:
    lines = list(case.input_lines)
    index = lines.index("commit")
    base = [index_entry_of(line) for line in lines[:index]]
    return base, [index_entry_of(line) for line in lines[index + 1 :]]


COMMANDS = {"live": live, "compacted": compacted}
MERGE_COMMANDS = {"groups": groups, "full": full}
CONFLICT_COMMANDS = {"conflict": conflict}
INDEX_COMMANDS = {"rewrite": rewrite, "combined": combined, "conflict": index_conflicts}


def test_live_entries() -> None:
    run_file(HERE / "live_entries.txt", lambda case: COMMANDS[case.command](case))


def test_manifest_merge() -> None:
    run_file(HERE / "manifest_merge.txt", lambda case: MERGE_COMMANDS[case.command](case))


def test_conflict_detection() -> None:
    run_file(HERE / "conflict_detection.txt", lambda case: CONFLICT_COMMANDS[case.command](case))


def test_index_changes() -> None:
    run_file(HERE / "index_changes.txt", lambda case: INDEX_COMMANDS[case.command](case))
