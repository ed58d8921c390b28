"""Decides which files of a bucket are read together.

With a primary key, files with overlapping key ranges may have versions of the same keys, so a whole
section goes into one split. A section of one file without deletes needs no merge. Such files are
packed separately, into raw splits. Without a primary key files are independent. `pack_in_order`
fills bins of about equal weight.

Paimon makes a raw split only of a file that is alone in its bin, or of a bucket in one level. Here
a file stays raw beside neighbours that must be merged.

Source: Paimon `table/source/MergeTreeSplitGenerator.java`,
`table/source/AppendOnlySplitGenerator.java`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from stream_app.mergetree.interval_partition import Section
from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.model.files.data_split import SplitGroup
from stream_app.model.files.joined_files import JoinedFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRules:
    """The rules for the size of splits.

    Attributes:
        target_size: the bytes of a split (``source.split.target-size``).
        open_file_cost: the minimum weight of a file or section in bytes
            (``source.split.open-file-cost``).
    """

    target_size: int
    open_file_cost: int

    def weight(self, files: Iterable[DataFileMeta]) -> int:
        """Return the weight of files that must be read together."""
        return max(sum(file.file_size for file in files), self.open_file_cost)


class _NumberedFiles(NamedTuple):
    """The files of a section, and its place in the order of minimum keys."""

    section_index: int
    files: tuple[DataFileMeta, ...]


def merge_tree_groups(sections: Sequence[Section], rules: SplitRules) -> list[SplitGroup]:
    """Return the splits of a bucket with a primary key, in the order of their minimum keys."""
    raw_sections: list[_NumberedFiles] = []
    merged_sections: list[_NumberedFiles] = []
    for section_index, section in enumerate(sections):
        files = section_files(section)
        (raw_sections if needs_no_merge(files) else merged_sections).append(
            _NumberedFiles(section_index, files)
        )
    groups: dict[int, SplitGroup] = {}
    for is_raw, numbered_files in ((True, raw_sections), (False, merged_sections)):
        for group_bin in pack_in_order(
            numbered_files, lambda section: rules.weight(section.files), rules.target_size
        ):
            files = tuple(file for section in group_bin for file in section.files)
            groups[group_bin[0].section_index] = SplitGroup(files, is_raw)
    return [groups[section_index] for section_index in sorted(groups)]


def append_groups(files: Iterable[DataFileMeta], rules: SplitRules) -> list[SplitGroup]:
    """Return the splits of a bucket without a primary key, in the rows' order of arrival."""
    file_bins = pack_in_order(
        files_in_arrival_order(files), lambda file: rules.weight([file]), rules.target_size
    )
    return [SplitGroup(tuple(files), is_raw=True) for files in file_bins]


def joined_groups(joined_files: Iterable[JoinedFiles], rules: SplitRules) -> list[SplitGroup]:
    """Return splits of a bucket whose files readers join by row number, in their order."""
    group_bins = pack_in_order(
        joined_files, lambda group: rules.weight(group.files), rules.target_size
    )
    return [
        SplitGroup(
            tuple(file for group in members for file in group.files),
            is_raw=all(len(group.files) == 1 for group in members),
        )
        for members in group_bins
    ]


def section_files(section: Section) -> tuple[DataFileMeta, ...]:
    """Return all files of a section, run by run."""
    return tuple(file for run in section for file in run.files)


def needs_no_merge(files: Sequence[DataFileMeta]) -> bool:
    """Return whether a section is one file without deletes, whose rows need no merge.

    A section of one sorted run has only one file, because files without overlaps are separate
    sections.
    """
    return len(files) == 1 and not files[0].may_have_deletes


def are_merged_by_vectors(files: Iterable[DataFileMeta]) -> bool:
    """Return whether deletion vectors leave at most one unmarked row of each key.

    Rows of level 0 have not marked older rows yet.
    """
    return all(file.level > 0 and not file.may_have_deletes for file in files)


def files_in_arrival_order(files: Iterable[DataFileMeta]) -> list[DataFileMeta]:
    """Return files without keys in the order of writing, as far as their numbers record it."""
    return sorted(files, key=lambda file: file.min_sequence_number)


_T = TypeVar("_T")


def pack_in_order(
    items: Iterable[_T], weight_of: Callable[[_T], int], target_size: int
) -> list[list[_T]]:
    """Return bins of neighbours within the weight `target_size`; a heavier item is its own bin."""
    bins: list[list[_T]] = []
    weight = 0
    for item in items:
        item_weight = weight_of(item)
        if not bins or weight + item_weight > target_size:
            bins.append([])
            weight = 0
        bins[-1].append(item)
        weight += item_weight
    return bins
