"""Decides which small files of a table without a primary key are joined.

Rows of a bucket have an order, so only adjacent files are joined (`files_in_row_order`,
`pick_compact_before`, `pick_full_rewrite`). Without buckets each partition has a `SubCoordinator`,
which keeps files that are too few to be joined. Each round adds the new small files, and takes the
full bins. The module uses only sizes, and counts a partition's age in rounds.

Source: Paimon `append/AppendCompactCoordinator.java`, `append/BucketedAppendCompactManager.java`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from stream_app.model.files.data_file_meta import DataFileMeta

COMPACT_AGE = 5
"""Rounds without a full bin after which a partition's files are compacted as they are."""
REMOVE_AGE = 10
"""Rounds without a full bin after which a partition's single file is forgotten."""
_FILES_MIN = 2
"""The minimum number of files of a compaction: rewriting a single file would gain nothing."""
FULL_COMPACT_MIN_FILE = 3
"""The minimum number of a bucket's files for which a full compaction pays."""
Files = tuple[DataFileMeta, ...]
Task = tuple[bytes, Files]
"""A partition, and its files that a task joins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackRules:
    """The rules for the number and size of a task's files.

    Attributes:
        target_file_size: half of the bytes of a full bin.
        open_file_cost: the bytes added to the size of each file (``source.split.open-file-cost``).
        min_file_num: the number of files that fill a bin at any size (``compaction.min.file-num``).
    """

    target_file_size: int
    open_file_cost: int
    min_file_num: int


@dataclass(frozen=True, slots=True)
class SubCoordinator:
    """The small files of one partition that no task has taken yet.

    Attributes:
        age: the number of rounds without a full bin since the last file was added.
    """

    files: Files = ()
    age: int = 0

    def with_files(self, new_files: Iterable[DataFileMeta]) -> SubCoordinator:
        """Add files; the partition counts as young again."""
        file_by_name = {file.file_name: file for file in (*self.files, *new_files)}
        return SubCoordinator(tuple(file_by_name.values()))

    def without_files(self, names: Collection[str]) -> SubCoordinator:
        """Remove deleted files."""
        return replace(
            self, files=tuple(file for file in self.files if file.file_name not in names)
        )

    @property
    def may_be_forgotten(self) -> bool:
        """Whether to forget the partition, because no file is left or it is too old."""
        return not self.files or self.age > REMOVE_AGE


SubCoordinators = Mapping[bytes, SubCoordinator]
"""Serialized partition → its small files."""


def plan_round(
    sub_coordinators: SubCoordinators,
    small_files: Mapping[bytes, Sequence[DataFileMeta]],
    rules: PackRules,
    index_file_names: Mapping[str, str] | None = None,
) -> tuple[list[Task], dict[bytes, SubCoordinator]]:
    """Plan one round; return the tasks, and the files that remain for the next round.

    Args:
        small_files: partition → small files that are new to the planner. Without any the round does
            not count, and no partition ages.
        index_file_names: data file → the index file with its deletion vector; None if the table
            has no deletion vectors.
    """
    if not any(small_files.values()):
        return [], dict(sub_coordinators)
    updated_coordinators = dict(sub_coordinators)
    for partition, files in small_files.items():
        sub_coordinator = updated_coordinators.get(partition, SubCoordinator())
        updated_coordinators[partition] = sub_coordinator.with_files(files)
    tasks: list[Task] = []
    for partition, sub_coordinator in updated_coordinators.items():
        bins, updated_coordinators[partition] = pick_bins(sub_coordinator, rules, index_file_names)
        tasks += [(partition, files) for files in bins]
    remaining_partitions = {
        partition: sub_coordinator
        for partition, sub_coordinator in updated_coordinators.items()
        if not sub_coordinator.may_be_forgotten
    }
    return tasks, remaining_partitions


def pick_bins(
    sub_coordinator: SubCoordinator,
    rules: PackRules,
    index_file_names: Mapping[str, str] | None = None,
) -> tuple[list[Files], SubCoordinator]:
    """Return the full bins of one partition, or all of its files after a long wait."""
    if index_file_names is None:
        bins, remaining_files = pack_bins(sub_coordinator.files, rules)
    else:
        bins, remaining_files = pack_with_deletions(sub_coordinator.files, rules, index_file_names)
    if bins:
        return bins, replace(sub_coordinator, files=remaining_files)
    age = sub_coordinator.age + 1
    if age > COMPACT_AGE and len(sub_coordinator.files) >= _FILES_MIN:
        return [sub_coordinator.files], SubCoordinator((), age)
    return [], replace(sub_coordinator, age=age)


def pack_bins(files: Iterable[DataFileMeta], rules: PackRules) -> tuple[list[Files], Files]:
    """Pack files into bins, the smallest first, and return full bins and the rest.

    A bin is full if it has twice the target size, including the cost of opening its files. The last
    bin also counts as full if it has many files.
    """
    bins: list[Files] = []
    current_bin: list[DataFileMeta] = []
    size = 0
    for file in sorted(files, key=lambda file: (file.file_size, file.file_name)):
        current_bin.append(file)
        size += file.file_size + rules.open_file_cost
        if len(current_bin) >= _FILES_MIN and size >= 2 * rules.target_file_size:
            bins.append(tuple(current_bin))
            current_bin, size = [], 0
    if len(current_bin) >= max(_FILES_MIN, rules.min_file_num):
        bins.append(tuple(current_bin))
        current_bin = []
    return bins, tuple(current_bin)


def pack_with_deletions(
    files: Iterable[DataFileMeta], rules: PackRules, index_file_names: Mapping[str, str]
) -> tuple[list[Files], Files]:
    """Pack as `pack_bins` does, but also take all files with deleted rows.

    Files whose vectors share an index file stay together, so that it is rewritten only once.
    """
    groups: dict[str, list[DataFileMeta]] = {}
    other_files = []
    for file in sorted(files, key=lambda file: (file.file_size, file.file_name)):
        if file.file_name in index_file_names:
            groups.setdefault(index_file_names[file.file_name], []).append(file)
        else:
            other_files.append(file)
    bins: list[Files] = []
    current_bin: list[DataFileMeta] = []
    for group in sorted(groups.values(), key=lambda group: sum(file.file_size for file in group)):
        current_bin += group
        size = sum(file.file_size + rules.open_file_cost for file in current_bin)
        if len(current_bin) >= _FILES_MIN and size >= 2 * rules.target_file_size:
            bins.append(tuple(current_bin))
            current_bin = []
    if current_bin:
        bins.append(tuple(current_bin))
    other_bins, remaining_files = pack_bins(other_files, rules)
    return bins + other_bins, remaining_files


def files_in_row_order(files: Iterable[DataFileMeta]) -> Files:
    """Return a bucket's files in the order of their rows."""
    return tuple(sorted(files, key=lambda file: (file.min_sequence_number, file.file_name)))


def pick_compact_before(
    queue: Sequence[DataFileMeta], *, target_file_size: int, min_file_num: int
) -> tuple[Files, Files]:
    """Return the files to rewrite, empty if nothing is due, and the rest of the queue.

    A window moves over the queue. It is picked if it has `min_file_num` files. If it first reaches
    twice the target size, its first file is dropped for good.
    """
    window: list[DataFileMeta] = []
    size = 0
    for index, file in enumerate(queue):
        window.append(file)
        size += file.file_size
        if len(window) >= max(_FILES_MIN, min_file_num):
            return tuple(window), tuple(queue[index + 1 :])
        if size >= 2 * target_file_size:
            size -= window.pop(0).file_size
    return (), tuple(window)


def pick_full_rewrite(
    queue: Sequence[DataFileMeta], *, compaction_file_size: int, rewrites_all: bool
) -> Files:
    """Return the files that a full compaction rewrites; empty if it would gain nothing.

    Args:
        compaction_file_size: the size of a large file. Large files at the beginning stay; the rest
            is rewritten if most of its files are small.
        rewrites_all: whether to rewrite all files of any size.
    """
    if rewrites_all:
        return tuple(queue)
    is_large = [file.file_size >= compaction_file_size for file in queue]
    first_small = is_large.index(False) if False in is_large else len(queue)
    candidates = tuple(queue[first_small:])
    large_count = sum(is_large[first_small:])
    is_worthwhile = (
        len(candidates) >= FULL_COMPACT_MIN_FILE and len(candidates) - large_count > large_count
    )
    return candidates if is_worthwhile else ()
