"""Three implementations treat each kind of table as docs/reference/compatibility.md says.

Each cell is what a step here did. REWRITE=1 writes the page of what ran; without it the page must
say the same. A step that goes wrong is a failure, unless a library refuses the kind in words. A
short run tries every third kind.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

import stream_app
from stream_app.errors import StreamAppError, UnsupportedTableError, UsageError
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import new_table_schema
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.stream_table_commit import StreamTableCommit
from stream_app.table.opening import require_writable
from tests.simulation.actors.workers import by_bucket, writing
from tests.simulation.model.merging import Record, merge_of, merged, placed
from tests.support.histories.every_kind import ALWAYS_REFUSED, EVERY_KIND, options_of
from tests.support.interop.followed_rows import our_changes, texts
from tests.support.jobs.table_writer import CompactInCaller, by_content, read_rows
from tests.support.judges.normal_rows import normal_rows
from tests.support.judges.paimon_java import PaimonError, PaimonJava
from tests.support.judges.pypaimon_reader import LOCK_LIST, PyPaimonError, PyPaimonReader
from tests.support.pages.documented_tables import documented_section
from tests.support.suite.datadriven import rewriting
from tests.support.tables.small_table import Change
from tests.support.tables.sound_table import sound_report

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]
PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "compatibility.md"
COLUMNS = [("k", "INT NOT NULL"), ("v", "BIGINT"), ("p", "STRING"), ("t", "STRING")]
STEPS = (
    ("Java", "write"), ("Java", "compact"), ("Java", "read"), ("Java", "follow"),
    ("PyPaimon", "write"), ("PyPaimon", "compact"), ("PyPaimon", "read"), ("PyPaimon", "follow"),
    ("PyPaimon", "check"),
    ("Rust", "write"), ("Rust", "compact"), ("Rust", "read"), ("Rust", "follow"), ("Rust", "check"),
    ("stream_app", "write"), ("stream_app", "compact"),
    ("stream_app", "read"), ("stream_app", "follow"), ("stream_app", "check"),
)  # fmt: skip
APPEND: Mapping[str, dict[str, str]] = {
    "no key": {"bucket": "-1"},
    "no key, `deletion-vectors.enabled`": {"bucket": "-1", "deletion-vectors.enabled": "true"},
    "no key, buckets": {"bucket": "2", "bucket-key": "k"},
}
TAKES_DELETES: Mapping[str, dict[str, str]] = {
    "deduplicate": {},
    "partial-update": {"partial-update.remove-record-on-delete": "true"},
    "aggregation": {
        "aggregation.remove-record-on-delete": "true",
        "fields.v.aggregate-function": "sum",
    },
    "first-row": {"ignore-delete": "true"},
}
"""What else a table of a merge engine says, so that it takes deletes."""
DYNAMIC = {("none", "false"), ("lookup", "true"), ("lookup", "false")}
"""Changelog producers and vectors of the tables with dynamic buckets."""
LOOKUP = {"bucket": "-1", "changelog-producer": "lookup"}
ACROSS: Mapping[str, dict[str, str]] = {
    "key without the partition": {"bucket": "-1"},
    "key without the partition, `input`": {"bucket": "-1", "changelog-producer": "input"},
    "key without the partition, `lookup`, vectors": {**LOOKUP, "deletion-vectors.enabled": "true"},
    **{
        f"key without the partition, `{engine}`, `lookup`, deletes": {
            **LOOKUP, "merge-engine": engine, **TAKES_DELETES[engine],
        }
        for engine in ("partial-update", "aggregation", "first-row")
    },
}  # fmt: skip
ARROW = pa.schema(
    [pa.field("k", pa.int32(), nullable=False), ("v", pa.int64()), ("p", pa.string()),
     ("t", pa.string())]
)  # fmt: skip
YES, REFUSED, FILES, RAW, ASSIGNER = "yes", "refused", "files", "raw", "assigner"
TWICE = "twice"
NONE = "none"
LARGE = {k: hashlib.sha512(str(k).encode()).hexdigest() for k in range(1_001, 2_001, 2)}
"""Keys of the first commit alone: its file is so large that later ones are compacted beside it."""
HEAD = """\
# Compatibility

This page shows which kinds of tables each engine writes, compacts, reads and follows.
`tests/interop/kinds/test_compatibility.py` generates it from its results. For each kind Paimon's Java, PyPaimon,
paimon-rust and stream_app write one table in turns, Java and stream_app compact it, and all read and follow it. *yes*
means: rows and changes are those of an oracle in Python.

* *refused*: the engine says so in words, and does nothing.
* *none*: PyPaimon and paimon-rust have no function of such a name. After their writes Java compacts.
* *twice*: PyPaimon and paimon-rust read wrong rows until a full compaction, also in tables of Java alone. A compaction
  that looks up writes a key's whole value, and leaves older values in the levels below. Both add them once more. With
  deletion vectors they read the right rows.
* *raw*: a library gives new rows as they were flushed, without those that they merge with.
* *assigner*: Java's library has no writer that finds the older row in another partition. The test gives it rows through
  Paimon's `GlobalIndexAssigner`, as the sinks for Flink and Spark do.
* *deletes*: the table has options of its merge engine by which deletes remove rows or are ignored, and gets some.
  PyPaimon refuses such options. Tables of `deduplicate` get deletes anyway.
* *files*: `stream-app check` looks at all files. It replays no changes, because none show how rows were merged.
* PyPaimon and paimon-rust write inserts alone here, because their rows have no kinds. Paimon has nothing like `check`.
* Three options of Paimon 2 have tests of their own in `tests/interop/kinds`: null keys (`test_nullable_keys.py`),
  merge-on-read (`test_merge_on_read.py`) and the order of snapshots (`test_snapshot_ordering.py`). Java 1.4 reads
  null keys, and compacts tables with merge-on-read. PyPaimon and paimon-rust read both. With the order of snapshots
  all three read the right rows after a compaction; before it, they order rows by the rows' own sequence numbers.
* Columns of type ARRAY, MAP and ROW are in tables of their own (`tests/interop/columns/test_nested_columns.py`). Java
  and stream_app write and compact them in turns, with functions that merge them. Java and PyPaimon read them.
* So do columns of VARIANT (`test_variant_columns.py`), plain and shredded. PyPaimon and paimon-rust read
  plain ones.
* Tables with BLOBs (`test_blob_columns.py`) are written by Java and PyPaimon alone. PyPaimon also updates and deletes
  their rows. stream_app reads and checks all of them.
* Java is Paimon 1.4, PyPaimon is 2.1, Rust is paimon-rust 0.4 by its wheel pypaimon-rust. Java 2 has no published jar.

"""  # noqa: E501


@dataclass
class TriedTable:
    """One kind of table, and the outcome of each step.

    Attributes:
        crosses: the key lacks the partition.
        rows: what the table must hold, by key; a table without a key has each row once.
    """

    java: PaimonJava
    path: Path
    options: Mapping[str, str]
    has_key: bool
    crosses: bool = False
    cells: dict[tuple[str, str], str] = field(default_factory=dict)
    rows: dict[int, Record] = field(default_factory=dict)
    _epoch: int = 0
    _counts_twice: set[str] = field(default_factory=set)
    _first_changelog: list[list[str]] = field(default_factory=list)

    def create(self) -> None:
        self.java.create(
            self.path,
            COLUMNS,
            primary_keys=["k"] if self.has_key else [],
            partition_keys=["p"] if self.crosses else [],
            options=self.options,
        )

    @property
    def table(self) -> FileStoreTable:
        return require_writable(stream_app.open_table(str(self.path)).table)

    def _our_changes(self) -> list[list[str]]:
        return list(our_changes(stream_app.PaimonTable(self.table).changelog(snapshot=1)).values())

    @property
    def _takes_deletes(self) -> bool:
        engine = self.options.get("merge-engine", "deduplicate")
        return TAKES_DELETES[engine].keys() <= self.options.keys()

    def run(self, pypaimon: PyPaimonReader) -> None:
        """All steps, in turns."""
        for library in ("Java", "stream_app", "Java", "stream_app"):
            self._write(library)
            self._check_rows()
            self._look("PyPaimon", pypaimon.read)
            self._look("Rust", pypaimon.read_by_rust)
            if self._epoch > 2:
                self._compact(library)
                self._check_rows()
        self._write_inserts("PyPaimon", pypaimon.write)
        self._write_inserts("Rust", pypaimon.write_by_rust)
        self._check_changelog(
            "Java", lambda: [texts(p.changes) for p in self.java.changelog(self.path)]
        )
        self._check_changelog("stream_app", self._our_changes)
        self._check_changelog(
            "PyPaimon", lambda: [of_kinds(rows) for rows in pypaimon.follow(self.path)]
        )
        self._check_changelog(
            "Rust", lambda: [of_kinds(rows) for rows in pypaimon.follow_by_rust(self.path)]
        )
        if self.cells["stream_app", "follow"] == REFUSED:
            for library in ("Java", "PyPaimon", "Rust"):
                self.cells[library, "follow"] = RAW
        self._read("PyPaimon", lambda: normal_rows(pypaimon.read(self.path)))
        self._read("Rust", lambda: normal_rows(pypaimon.read_by_rust(self.path)))
        for library in self._counts_twice:
            self.cells[library, "read"] = TWICE
        for step in ("compact", "check"):
            assert pypaimon.names_with(self.path, step) == [], "try it, then"
            assert pypaimon.rust_names_with(step) == [], "try it, then"
            self.cells["PyPaimon", step] = self.cells["Rust", step] = NONE
        report = sound_report(self.table)
        assert report.file_count
        self.cells["stream_app", "check"] = YES if report.replayed_changes else FILES

    def _look(self, library: str, read: Callable[[Path], pa.Table]) -> None:
        """Note a library that counts values twice: lookups keep older values below their sum."""
        with contextlib.suppress(PyPaimonError):
            if by_content(normal_rows(read(self.path))) != by_content(self.rows.values()):
                self._counts_twice.add(library)

    def _write_inserts(self, library: str, write: Callable[[Path, pa.Table], None]) -> None:
        """Inserts; where readers skip new files, the next compaction shows them."""
        before = dict(self.rows)
        inserts = [dict(row) for _, row in self._changes(deletes=False)]
        self._epoch += 1
        with self._refusing(library, "write"):
            write(self.path, pa.Table.from_pylist(inserts, ARROW))
        if self.cells[library, "write"] == REFUSED:
            self.rows = before
        self.java.compact(self.path)
        self._check_rows()

    def _write(self, library: str) -> None:
        changes = self._changes()
        if library == "Java":
            self.java.write(self.path, changes, identifier=self._epoch, commit_user="java")
            if "full-compaction" in self.options.values():
                self.java.compact(self.path)
        else:
            commit = StreamTableCommit(self.table, "ours", CompactInCaller(self.table))
            first, basis = commit.follow_and_wait(), commit.bucket_state.basis
            with writing(self.table, first, basis) as write:
                copied_changes = [(kind, dict(row)) for kind, row in changes]
                for bucket, rows in by_bucket(self.table, copied_changes, basis):
                    write.write(bucket, rows)
                commit.commit_epoch(self._epoch, write.prepare_commit(), basis=basis)
        self.cells[library, "write"] = ASSIGNER if self.crosses and library == "Java" else YES
        self._epoch += 1

    def _compact(self, library: str) -> None:
        if library == "Java":
            self.java.compact(self.path)
        else:
            commit = StreamTableCommit(
                self.table, "compactor", CompactInCaller(self.table), BATCH_COMMIT_IDENTIFIER
            )
            commit.compact_fully()
        self.cells[library, "compact"] = YES

    def _changes(self, *, deletes: bool = True) -> list[Change]:
        """Some new keys and some old ones; one of them may be deleted, for good."""
        first = self._epoch * (5 if self.has_key else 20)
        partition = "ab"[self._epoch % 2] if self.crosses else "a"
        changes: list[Change] = [
            (
                "+I",
                {
                    "k": k,
                    "v": k + 100 * self._epoch,
                    "p": partition,
                    "t": LARGE.get(k, "x") if k % 2 else None,
                },
            )
            for k in (*range(first, first + 20), *(() if self._epoch else LARGE))
        ]
        if deletes and self.has_key and self._takes_deletes:
            changes.append(("-D", {"k": first + 3, "v": 0, "p": partition, "t": None}))
        merge = merge_of(self.options)
        records = [(kind, dict(row)) for kind, row in changes]
        for change in (
            placed(self.rows.values(), records, self.options) if self.crosses else records
        ):
            key = int(change[1]["k"])
            row = merged(merge, self.rows.pop(key, None), [change])
            if row is not None:
                self.rows[key] = row
        return changes

    def _check_rows(self) -> None:
        """Check that Java and stream_app read the expected rows."""
        self._read("Java", lambda: self.java.read(self.path))
        self._read("stream_app", lambda: read_rows(self.table))

    def _read(self, library: str, read: Callable[[], Sequence[Mapping[str, object]]]) -> None:
        with self._refusing(library, "read"):
            content = by_content(read())
            assert content == by_content(self.rows.values()), (library, self.options)

    def _check_changelog(self, library: str, follow: Callable[[], list[list[str]]]) -> None:
        with self._refusing(library, "follow"):
            changelog = [changes for changes in follow() if changes]
            self._first_changelog = self._first_changelog or changelog
            assert changelog == self._first_changelog, (library, self.options)

    @contextlib.contextmanager
    def _refusing(self, library: str, step: str) -> Iterator[None]:
        self.cells[library, step] = YES
        try:
            yield
        except (PaimonError, PyPaimonError, UnsupportedTableError):
            self.cells[library, step] = REFUSED


def of_kinds(rows: pa.Table) -> list[str]:
    """Changes that PyPaimon or its library in Rust tells."""
    [kind] = {"_row_kind", "rowkind"} & set(rows.column_names)
    return texts([(row.pop(kind), row) for row in normal_rows(rows)])


def refusal(options: Mapping[str, str]) -> str:
    """Return the error for a fresh table of a kind; empty if stream_app makes the table."""
    try:
        new_table_schema(
            columns=parse_columns("k INT, v BIGINT, p STRING, t STRING"),
            primary_keys=("k",),
            partition_keys=(),
            options=options,
            time_ms=0,
        )
    except (UsageError, UnsupportedTableError) as error:
        return error.problem.removeprefix("the table definition is wrong: ")
    return ""


def wanted_options(kind: tuple[str, str, str, str]) -> dict[str, str]:
    """Return a kind's options. Dynamic buckets take deletes; a sum shows rows that count twice."""
    sums = {"fields.v.aggregate-function": "sum"} if kind[0] == "aggregation" else {}
    return options_of(kind) | sums | (TAKES_DELETES[kind[0]] if kind[2] == "-1" else {})


def is_tried(bucket: str, producer: str, vectors: str) -> bool:
    """Rows of postponed buckets wait for a compaction: test_postponed_buckets has them."""
    return bucket == "2" or (bucket == "-1" and (producer, vectors) in DYNAMIC)


def kind_text(kind: tuple[str, str, str, str]) -> str:
    engine, producer, bucket, vectors = kind
    parts = [f"`{engine}`", f"`{producer}`"]
    if bucket == "-1":
        parts += ["`bucket = -1`"] if engine == "deduplicate" else ["`bucket = -1`, deletes"]
    parts += ["vectors"] if vectors == "true" else []
    return ", ".join(parts)


def page(tables: Mapping[str, TriedTable], refusals: Mapping[str, str]) -> str:
    """The page of what ran."""
    names = [f"{library} {step}" for library, step in STEPS]
    lines = ["| merge engine, changelog, vectors | " + " | ".join(names) + " |"]
    lines += ["| --- |" + " --- |" * len(names)]
    for name, table in tables.items():
        lines.append(f"| {name} | " + " | ".join(table.cells[step] for step in STEPS) + " |")
    refusal_lines = ["", "## Refused at start", ""]
    refusal_lines += ["A job refuses to make these, and to open them.", ""]
    refusal_lines += ["| kind | stream_app says |", "| --- | --- |"]
    refusal_lines += [f"| {name} | {reason} |" for name, reason in refusals.items()]
    return HEAD + "\n".join(lines + refusal_lines) + "\n\n" + documented_section()


def test_the_page_says_what_each_engine_does(
    paimon_java: PaimonJava,
    pypaimon: PyPaimonReader,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    pytestconfig: pytest.Config,
) -> None:
    tries_all = rewriting() or pytestconfig.getoption("thorough")
    tables: dict[str, TriedTable] = {}
    refusals: dict[str, str] = {}
    for number, kind in enumerate(EVERY_KIND):
        _, producer, bucket, vectors = kind
        options, name = wanted_options(kind), kind_text(kind)
        if bucket == "2" and (reason := refusal(options)):
            refusals[name] = reason
            # Paimon refuses it too, so there is none that a job could meet.
            with pytest.raises((PaimonError, StreamAppError)):
                paimon_java.create(
                    tmp_path / "db.db" / f"r{number}",
                    COLUMNS,
                    primary_keys=["k"],
                    options=options,
                )
            assert (kind[0], producer, vectors) in ALWAYS_REFUSED
        elif not refusal(options) and is_tried(bucket, producer, vectors):
            tables[name] = TriedTable(paimon_java, tmp_path / "db.db" / f"t{number}", options, True)
    for name, options in {**APPEND, **ACROSS}.items():
        path, crosses = tmp_path / "db.db" / f"a{len(tables)}", name in ACROSS
        tables[name] = TriedTable(paimon_java, path, options, has_key=crosses, crosses=crosses)
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # for the index of keys
    if not tries_all:
        tables = dict(list(tables.items())[::3])
    for tried_table in tables.values():
        tried_table.create()
        tried_table.run(pypaimon)
    lock_text = LOCK_LIST.read_text(encoding="utf-8")
    assert "pypaimon==2.1." in lock_text, "the page says which"
    assert "pypaimon-rust==0.4." in lock_text, "the page says which"
    text = page(tables, refusals)
    if rewriting():
        PAGE.write_text(text, encoding="utf-8")
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    missing_lines = [line for line in text.splitlines() if line not in lines]
    assert not missing_lines, "REWRITE=1 writes the page again"
    assert not tries_all or text.splitlines() == lines
