"""Checks a whole table and its branches: metadata, files, deletion vectors, changelog.

A branch is checked as a table of its own, but a shared file is read once.

The report names what could not be checked, such as files of another format. A check that has read
nothing does not prove the table intact.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from stream_app.errors import CorruptFileError, StreamAppError, UnsupportedTableError
from stream_app.filestore.versions.branch_folders import branch_names, branch_root
from stream_app.model.files.index_file_meta import IndexManifestEntry
from stream_app.model.finding import Finding, FindingKind, unreadable
from stream_app.model.options.compaction_options import WRITE_ONLY
from stream_app.model.options.core_options import unknown_options
from stream_app.model.snapshot import Snapshot
from stream_app.planning.check.damaged_file_needs import VersionName, needs_text, next_step
from stream_app.planning.compact.waiting_rows import readers_text, waiting_fix, waiting_text
from stream_app.table.check.changelog_check import ChangelogCheck
from stream_app.table.check.changelog_replay import plan_changelog_replay
from stream_app.table.check.data_file_measurement import measure_file
from stream_app.table.check.dependent_versions import FileNeeds, file_needs
from stream_app.table.check.doubled_keys import (
    DoubledKeySearch,
    cross_partition_findings,
    hash_index_findings,
)
from stream_app.table.check.file_index_check import file_index_findings
from stream_app.table.check.iceberg_check import iceberg_findings
from stream_app.table.check.metadata_check import FileInUse, MetadataCheck, Progress
from stream_app.table.check.row_sum_check import row_sum_findings
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import open_branch
from stream_app.table.versions.file_store_scan import FileStoreScan
from stream_app.table.versions.read_refusals import check_readable
from stream_app.table.versions.waiting_row_count import count_waiting_rows

_PRESENCE = (FindingKind.FILE_MISSING, FindingKind.FILE_SIZE)
_DAMAGING = {
    FindingKind.SNAPSHOTS,
    FindingKind.MANIFEST,
    *_PRESENCE,
    FindingKind.FILE_UNREADABLE,
    FindingKind.ROW_COUNT,
    FindingKind.KEY_ORDER,
    FindingKind.KEY_RANGE,
    FindingKind.SEQUENCE_NUMBERS,
    FindingKind.DELETION_VECTOR,
}
"""Findings about a file that must be replaced by another copy, or given up."""
_REWRITABLE = {FindingKind.STATISTICS, FindingKind.BUCKET, FindingKind.PARTITION}
"""Findings about a file whose content can be read and rewritten."""


@dataclass(slots=True, kw_only=True)
class CheckReport:
    """The extent of a check, beside its findings.

    Attributes:
        version_count: the number of checked snapshots, tags and changelogs.
        branch_count: the number of checked branches.
        file_count, row_count: the numbers of data and changelog files that were read, and of their
            rows.
        replayed_changes: which changes were replayed.
        unchecked_parts: parts that could not be checked, with the reason.
        unread_files: files of a format that stream_app cannot read, with the reason.
        damaged_versions: versions that cannot be read completely; empty if all can.
        fix: the next step to repair all damage.
    """

    version_count: int = 0
    branch_count: int = 0
    file_count: int = 0
    row_count: int = 0
    replayed_changes: list[str] = field(default_factory=list)
    unchecked_parts: list[str] = field(default_factory=list)
    unread_files: list[str] = field(default_factory=list)
    damaged_versions: str = ""
    fix: str = ""


@dataclass(slots=True)
class TableCheck:
    """One check of a table.

    Attributes:
        is_quick: whether to check only the metadata and the listings of folders.
        progress: receives the progress of the check.
        report: grows while the caller iterates over `findings`.
    """

    table: FileStoreTable
    is_quick: bool
    progress: Progress
    report: CheckReport = field(default_factory=CheckReport)
    _file_needs: FileNeeds | None = field(init=False, default=None)
    _lost_versions: set[VersionName] = field(init=False, default_factory=set)
    _checked_paths: set[str] = field(init=False, default_factory=set)
    """The files that were read; branches share files with their table."""

    def findings(self) -> Iterator[Finding]:
        """Yield each problem once, as soon as the check finds it."""
        yielded_identities: set[tuple[FindingKind, str, str]] = set()
        for finding in self._all_findings():
            if (
                identity := (finding.kind, finding.problem, finding.where)
            ) not in yielded_identities:
                yielded_identities.add(identity)
                yield self._with_needs(finding)
        if self._lost_versions and self._file_needs is not None:
            self.report.damaged_versions = needs_text(self._lost_versions)
            versions = self._file_needs.versions
            self.report.fix = next_step(
                self.table.location, versions, self._lost_versions, self._lost_versions
            )

    def _with_needs(self, finding: Finding) -> Finding:
        """Return the finding with its consequences for the table's versions."""
        dependents = self._record_versions_lost_by(finding)
        if not dependents or self._file_needs is None:
            return finding
        finding_with_needs = replace(finding, needed_by=needs_text(dependents))
        if finding.kind not in _DAMAGING:
            return finding_with_needs
        versions = self._file_needs.versions
        return replace(
            finding_with_needs,
            fix=next_step(self.table.location, versions, dependents, self._lost_versions),
        )

    def _record_versions_lost_by(self, finding: Finding) -> set[VersionName]:
        """Record the versions that a finding damages, and return those that need its file."""
        if finding.kind not in _DAMAGING | _REWRITABLE:
            return set()
        if self._file_needs is None:
            self._file_needs = file_needs(self.table)
        dependents = self._file_needs.versions_with(finding.where)
        if finding.kind in _DAMAGING:
            self._lost_versions |= dependents
        return dependents

    def _all_findings(self) -> Iterator[Finding]:
        """Yield the findings about the table, its Iceberg metadata and its branches."""
        table = self.table
        yield from self._version_tree_findings(table, "")
        if table.branch:
            return
        yield from iceberg_findings(table)
        for name in branch_names(table.file_io, table.location):
            self.report.branch_count += 1
            try:
                branch = open_branch(table, name)
            except CorruptFileError as error:
                yield _branch_finding(table, name, error.problem)
                continue
            if branch is None and name in branch_names(table.file_io, table.location):
                yield _branch_finding(table, name, f"branch {name!r} has no schema")
            if branch is not None:
                yield from self._version_tree_findings(branch, f"branch {name}: ")

    def _version_tree_findings(self, table: FileStoreTable, prefix: str) -> Iterator[Finding]:
        """Check the table or a branch.

        Args:
            prefix: the beginning of the texts about the table or branch.
        """
        metadata = MetadataCheck(table, self.progress)
        metadata_findings = [*metadata.run(), *_waiting_row_findings(table)]
        for finding in metadata_findings:  # first, because the advice names versions
            self._record_versions_lost_by(finding)
        yield from metadata_findings
        self.report.version_count += metadata.version_count
        yield from _unknown_findings(table, prefix)
        if self.is_quick:
            return
        try:
            check_readable(table, merges_rows=False)
        except UnsupportedTableError as error:
            yield _rows_not_checked(table, prefix, error.problem)
            return
        damaged_paths = {
            finding.where for finding in metadata_findings if finding.kind in _PRESENCE
        }
        file_check = _FileCheck(table, self.report)
        reported_paths = damaged_paths | self._checked_paths
        files = [file for file in metadata.files.values() if file.path not in reported_paths]
        for done, file in enumerate(files):
            self.progress("files", done, len(files))
            yield from file_check.file_findings(file)
        self.progress("files", len(files), len(files))
        for path, (entry, snapshot) in metadata.index_files.items():
            if path not in reported_paths and entry.holds_deletion_vectors:
                yield from file_check.vector_findings(path, entry, snapshot)
        if table.kind_traits.indexes_hashes:
            yield from file_check.findings_if_supported("index of keys", hash_index_findings(table))
        self._checked_paths |= {*metadata.files, *metadata.index_files}
        # The checks above report such files.
        with contextlib.suppress(CorruptFileError, FileNotFoundError):
            if (latest_snapshot := table.snapshots.latest()) is not None:
                yield from file_index_findings(table, latest_snapshot, self.report.unchecked_parts)
                yield from DoubledKeySearch(table, latest_snapshot).findings()
                doubled_findings = cross_partition_findings(table, latest_snapshot)
                yield from file_check.findings_if_supported(
                    "keys in several partitions", doubled_findings
                )
            sums = row_sum_findings(table, self.report.unchecked_parts)
            yield from file_check.findings_if_supported("checksum of the rows", sums)
        yield from self._changelog_findings(table, prefix)

    def _changelog_findings(self, table: FileStoreTable, prefix: str) -> Iterator[Finding]:
        """Yield the differences between the table and a replay of its changelog."""
        if not table.kind_traits.merges_by_key:
            return
        subject = f"{prefix}replay of the changes"
        try:
            changelog_replay = plan_changelog_replay(table)
            if isinstance(changelog_replay, str):
                self.report.unchecked_parts.append(f"{subject}: {changelog_replay}")
                return
            check = ChangelogCheck(changelog_replay, self.progress)
            yield from check.findings()
            self.report.unchecked_parts += [
                f"{subject}: {version}" for version in sorted(check.uncompared_rows)
            ]
            self.report.replayed_changes.append(f"{prefix}{changelog_replay.snapshot_range}")
        except (StreamAppError, FileNotFoundError) as error:
            text = error.problem if isinstance(error, StreamAppError) else str(error)
            self.report.unchecked_parts.append(f"{subject}: {text}")


def _waiting_row_findings(table: FileStoreTable) -> Iterator[Finding]:
    # A damaged manifest is a finding of the metadata.
    with contextlib.suppress(CorruptFileError, FileNotFoundError):
        if rows := count_waiting_rows(table, table.snapshots.latest()):
            yield Finding(
                kind=FindingKind.WAITING_ROWS,
                problem=f"{waiting_text(rows)}: {readers_text(table.visibility)} do not see them "
                "until then",
                where=table.version_root,
                fix=waiting_fix(is_write_only=table.options[WRITE_ONLY]),
            )


def _unknown_findings(table: FileStoreTable, prefix: str) -> Iterator[Finding]:
    if unknown_names := (*unknown_options(table.schema.options), *table.schema.unknown_fields):
        problem = f"what stream_app does not know may change them: {', '.join(unknown_names)}"
        yield _rows_not_checked(table, prefix, problem)


def _rows_not_checked(table: FileStoreTable, prefix: str, reason: str) -> Finding:
    return Finding(
        kind=FindingKind.NOT_COMPARED,
        problem=f"{prefix}rows were not checked: {reason}",
        where=table.version_root,
        fix="compare the rows with their source by the engine that made the table",
    )


def _branch_finding(table: FileStoreTable, name: str, problem: str) -> Finding:
    return Finding(
        kind=FindingKind.SCHEMA,
        problem=problem,
        where=branch_root(table.location, name),
        fix="restore its folder schema from a backup; or delete the branch, if it is not needed",
    )


@dataclass(slots=True)
class _FileCheck:
    """A reader of files, each through the schema that it was written with."""

    table: FileStoreTable
    report: CheckReport
    _tables: dict[int, FileStoreTable] = field(init=False, default_factory=dict)

    def file_findings(self, file: FileInUse) -> list[Finding]:
        """Return the findings about one data or changelog file."""

        def findings_of_file() -> list[Finding]:
            table = self._table_of_schema(file.entry.file.schema_id)
            measurement = measure_file(table, file.entry, keys_repeat=file.is_changelog)
            self.report.file_count += 1
            self.report.row_count += measurement.row_count
            return list(measurement.findings(file.path))

        return self._findings_if_file_exists(file.path, findings_of_file)

    def findings_if_supported(self, subject: str, findings: Iterator[Finding]) -> list[Finding]:
        """Return the findings; none if a file's format is unsupported, which the report says."""
        try:
            return list(findings)
        except UnsupportedTableError as error:
            self.report.unchecked_parts.append(f"{subject}: {error.problem}")
            return []

    def vector_findings(
        self, path: str, entry: IndexManifestEntry, snapshot: Snapshot
    ) -> list[Finding]:
        """Return the findings about the deletion vectors of one index file."""

        def findings_of_vectors() -> list[Finding]:
            row_counts = {
                live_entry.file.file_name: live_entry.file.row_count
                for live_entry in FileStoreScan(self.table).live(snapshot, [entry.bucket_id])
            }
            vectors = self.table.deletion_vector_files.read(entry)
            return [
                Finding(
                    kind=FindingKind.DELETION_VECTOR,
                    problem=f"the deletion vector of {meta.data_file_name} {problem}",
                    where=path,
                    fix="roll the table back to a snapshot or tag before this file: stream-app "
                    "rollback-to",
                )
                for meta in entry.index_file.deletion_vectors or ()
                for problem in _vector_problems(
                    vectors[meta.data_file_name].cardinality,
                    meta.cardinality,
                    int(vectors[meta.data_file_name].positions().max(initial=0)),
                    row_counts.get(meta.data_file_name),
                )
            ]

        return self._findings_if_file_exists(path, findings_of_vectors)

    def _findings_if_file_exists(
        self, path: str, findings_of: Callable[[], list[Finding]]
    ) -> list[Finding]:
        try:
            findings = findings_of()
        except UnsupportedTableError as error:
            self.report.unread_files.append(f"{path}: {error.problem}")
            return []
        except CorruptFileError as error:
            findings = [unreadable(error, path)]
        # The file's version may have expired during the check, and the file with it.
        return findings if self.table.file_io.exists(path) else []

    def _table_of_schema(self, schema_id: int) -> FileStoreTable:
        if schema_id not in self._tables:
            try:
                schema = self.table.schemas.schema(schema_id)
            except FileNotFoundError:
                raise CorruptFileError(
                    f"schema {schema_id}, with which a data file was written, is missing",
                    fix=f"restore schema/schema-{schema_id} from a backup",
                ) from None
            self._tables[schema_id] = replace(self.table, schema=schema)
        return self._tables[schema_id]


def _vector_problems(
    cardinality: int, listed_count: int | None, last_row: int, row_count: int | None
) -> Iterator[str]:
    if listed_count is not None and cardinality != listed_count:
        yield f"has {cardinality} rows, its index manifest says {listed_count}"
    if row_count is not None and last_row >= row_count:
        yield f"deletes row {last_row} of a file with {row_count} rows"
