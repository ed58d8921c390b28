"""docs/compatibility.md: what Paimon's Java, PyPaimon and stream_app do with each kind of table.

Each cell is what a step here did. REWRITE=1 writes the page of what ran; without it the page must
say the same. A step that goes wrong is a failure, unless somebody refuses the kind in words.
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
from stream_app.table.job.stream_commit import StreamTableCommit
from stream_app.table.opening import open_for_writing
from tests.interop.test_following import ours, texts
from tests.simulation.actors import by_bucket, writing
from tests.simulation.merging import Record, merge_of, merged, placed
from tests.simulation.test_every_kind import ALWAYS_REFUSED, EVERY_KIND, options_of
from tests.support.datadriven import rewriting
from tests.support.normal_rows import normal_rows
from tests.support.paimon_java import PaimonError, PaimonJava
from tests.support.pypaimon_reader import LOCK_LIST, PyPaimonError, PyPaimonReader
from tests.support.small_table import Change
from tests.support.sound_table import sound_report
from tests.support.table_writer import CompactInCaller, by_content, read_rows

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]
PAGE = Path(__file__).resolve().parents[2] / "docs" / "compatibility.md"
COLUMNS = [("k", "INT NOT NULL"), ("v", "BIGINT"), ("p", "STRING"), ("t", "STRING")]
STEPS = (
    ("Java", "write"), ("Java", "compact"), ("Java", "read"), ("Java", "follow"),
    ("PyPaimon", "write"), ("PyPaimon", "compact"), ("PyPaimon", "read"), ("PyPaimon", "follow"),
    ("PyPaimon", "check"), ("stream_app", "write"), ("stream_app", "compact"),
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

Which kinds of tables each engine writes, compacts, reads and follows. `tests/interop/test_compatibility.py` makes
this page of what it has done. For each kind Paimon's Java, PyPaimon and stream_app write and compact one table in
turns, and all read and follow it. *yes* means: rows and changes are those of an oracle in Python.

* *refused*: the engine says so in words, and does nothing.
* *none*: PyPaimon has no function of such a name. After its writes Java compacts.
* *twice*: PyPaimon reads wrong rows until a full compaction. A compaction that looks up writes a key's whole value, and
  leaves older values in the levels below. PyPaimon adds them once more, and so does paimon-rust 0.4, also in tables of
  Java. With deletion vectors both read the right rows.
* *raw*: a library gives new rows as they were flushed, without those that they merge with.
* *assigner*: Java's library has no writer that finds the older row in another partition. The test gives it rows through
  Paimon's `GlobalIndexAssigner`, as the sinks for Flink and Spark do.
* *deletes*: the table has options of its merge engine by which deletes remove rows or are ignored, and gets some.
  PyPaimon refuses such options. Tables of `deduplicate` get deletes anyway.
* *files*: `stream-app check` looks at all files. It replays no changes, because none tell how rows were merged.
* PyPaimon writes inserts alone here, because its rows have no kinds. Paimon has nothing like `check`.
* Columns of type ARRAY, MAP and ROW stand in tables of their own (`tests/interop/test_nested_columns.py`). Java and
  stream_app write and compact them in turns, with functions that merge them. Java and PyPaimon read them.
* Java is Paimon 1.4, PyPaimon is 2.1.

"""  # noqa: E501


@dataclass
class Tried:
    """One kind of table, and what came of each step.

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
    _counts_twice: bool = False
    _told_before: list[list[str]] = field(default_factory=list)

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
        return open_for_writing(stream_app.open_table(str(self.path)).store)

    @property
    def _takes_deletes(self) -> bool:
        engine = self.options.get("merge-engine", "deduplicate")
        return TAKES_DELETES[engine].keys() <= self.options.keys()

    def run(self, pypaimon: PyPaimonReader) -> None:
        """All steps, in turns."""
        for who in ("Java", "stream_app", "Java", "stream_app"):
            self._write(who)
            self._check_rows()
            self._look_by_pypaimon(pypaimon)
            if self._epoch > 2:
                self._compact(who)
                self._check_rows()
        self._write_pypaimon(pypaimon)
        self._told("Java", lambda: [texts(p.changes) for p in self.java.changelog(self.path)])
        self._told(
            "stream_app",
            lambda: list(ours(stream_app.PaimonTable(self.table).changelog(snapshot=1)).values()),
        )
        self._told("PyPaimon", lambda: [of_kinds(rows) for rows in pypaimon.follow(self.path)])
        if self.cells["stream_app", "follow"] == REFUSED:
            self.cells["Java", "follow"] = self.cells["PyPaimon", "follow"] = RAW
        self._read("PyPaimon", lambda: normal_rows(pypaimon.read(self.path)))
        if self._counts_twice:
            self.cells["PyPaimon", "read"] = TWICE
        for step in ("compact", "check"):
            assert pypaimon.names_with(self.path, step) == [], "try it, then"
            self.cells["PyPaimon", step] = NONE
        report = sound_report(self.table)
        assert report.files
        self.cells["stream_app", "check"] = YES if report.replayed else FILES

    def _look_by_pypaimon(self, pypaimon: PyPaimonReader) -> None:
        """Where compactions look up, older values of a key stay below the file with their sum."""
        with contextlib.suppress(PyPaimonError):
            found = by_content(normal_rows(pypaimon.read(self.path)))
            self._counts_twice |= found != by_content(self.rows.values())

    def _write_pypaimon(self, pypaimon: PyPaimonReader) -> None:
        """Inserts; where readers skip new files, the next compaction shows them."""
        before = dict(self.rows)
        inserts = [dict(row) for _, row in self._changes(deletes=False)]
        with self._refusing("PyPaimon", "write"):
            pypaimon.write(self.path, pa.Table.from_pylist(inserts, ARROW))
        if self.cells["PyPaimon", "write"] == REFUSED:
            self.rows = before
        self.java.compact(self.path)
        self._check_rows()

    def _write(self, who: str) -> None:
        changes = self._changes()
        if who == "Java":
            self.java.write(self.path, changes, identifier=self._epoch, commit_user="java")
            if "full-compaction" in self.options.values():
                self.java.compact(self.path)
        else:
            commit = StreamTableCommit(self.table, "ours", CompactInCaller(self.table))
            first, basis = commit.follow_and_wait(), commit.index.basis
            with writing(self.table, first, basis) as write:
                given = [(kind, dict(row)) for kind, row in changes]
                for bucket, rows in by_bucket(self.table, given, basis.written_on):
                    write.write(bucket, rows)
                commit.commit_epoch(self._epoch, write.prepare_commit(), basis=basis)
        self.cells[who, "write"] = ASSIGNER if self.crosses and who == "Java" else YES
        self._epoch += 1

    def _compact(self, who: str) -> None:
        if who == "Java":
            self.java.compact(self.path)
        else:
            commit = StreamTableCommit(
                self.table, "compactor", CompactInCaller(self.table), BATCH_COMMIT_IDENTIFIER
            )
            commit.compact_whole()
        self.cells[who, "compact"] = YES

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
        """Both read what either has written."""
        self._read("Java", lambda: self.java.read(self.path))
        self._read("stream_app", lambda: read_rows(self.table))

    def _read(self, who: str, read: Callable[[], Sequence[Mapping[str, object]]]) -> None:
        with self._refusing(who, "read"):
            found = by_content(read())
            assert found == by_content(self.rows.values()), (who, self.options)

    def _told(self, who: str, follow: Callable[[], list[list[str]]]) -> None:
        with self._refusing(who, "follow"):
            told = [changes for changes in follow() if changes]
            self._told_before = self._told_before or told
            assert told == self._told_before, (who, self.options)

    @contextlib.contextmanager
    def _refusing(self, who: str, step: str) -> Iterator[None]:
        self.cells[who, step] = YES
        try:
            yield
        except (PaimonError, PyPaimonError, UnsupportedTableError):
            self.cells[who, step] = REFUSED


def of_kinds(rows: pa.Table) -> list[str]:
    """Changes that PyPaimon tells."""
    return texts([(row.pop("_row_kind"), row) for row in normal_rows(rows)])


def refusal(options: Mapping[str, str]) -> str:
    """What stream_app says to a new table of a kind; empty: it makes one."""
    try:
        new_table_schema(
            columns=parse_columns("k INT, v BIGINT, p STRING, t STRING"),
            primary_keys=("k",),
            partition_keys=(),
            options=options,
            time_millis=0,
        )
    except (UsageError, UnsupportedTableError) as error:
        return error.what.removeprefix("the table definition is wrong: ")
    return ""


def wanted_options(kind: tuple[str, str, str, str]) -> dict[str, str]:
    """Of the kind; with dynamic buckets it takes deletes. A sum shows what is counted twice."""
    sums = {"fields.v.aggregate-function": "sum"} if kind[0] == "aggregation" else {}
    return options_of(kind) | sums | (TAKES_DELETES[kind[0]] if kind[2] == "-1" else {})


def kind_text(kind: tuple[str, str, str, str]) -> str:
    engine, producer, bucket, vectors = kind
    parts = [f"`{engine}`", f"`{producer}`"]
    if bucket == "-1":
        parts += ["`bucket = -1`"] if engine == "deduplicate" else ["`bucket = -1`, deletes"]
    parts += ["vectors"] if vectors == "true" else []
    return ", ".join(parts)


def page(tried: Mapping[str, Tried], refused: Mapping[str, str]) -> str:
    """The page of what ran."""
    names = [f"{who} {step}" for who, step in STEPS]
    lines = ["| merge engine, changelog, vectors | " + " | ".join(names) + " |"]
    lines += ["| --- |" + " --- |" * len(names)]
    for name, one in tried.items():
        lines.append(f"| {name} | " + " | ".join(one.cells[step] for step in STEPS) + " |")
    told = ["", "## Refused at start", "", "A job refuses to make these, and to open them.", ""]
    told += ["| kind | stream_app says |", "| --- | --- |"]
    told += [f"| {name} | {what} |" for name, what in refused.items()]
    return HEAD + "\n".join(lines + told) + "\n"


def test_the_page_says_what_each_engine_does(
    paimon_java: PaimonJava,
    pypaimon: PyPaimonReader,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: dict[str, Tried] = {}
    refused: dict[str, str] = {}
    for number, kind in enumerate(EVERY_KIND):
        _, producer, bucket, vectors = kind
        options, name = wanted_options(kind), kind_text(kind)
        if bucket == "2" and (what := refusal(options)):
            refused[name] = what
            # Paimon refuses it too, so there is none that a job could meet.
            with pytest.raises((PaimonError, StreamAppError)):
                paimon_java.create(
                    tmp_path / "db.db" / f"r{number}",
                    COLUMNS,
                    primary_keys=["k"],
                    options=options,
                )
            assert (kind[0], producer, vectors) in ALWAYS_REFUSED
        elif not refusal(options) and (bucket == "2" or (producer, vectors) in DYNAMIC):
            tried[name] = Tried(paimon_java, tmp_path / "db.db" / f"t{number}", options, True)
    for name, options in {**APPEND, **ACROSS}.items():
        path, crosses = tmp_path / "db.db" / f"a{len(tried)}", name in ACROSS
        tried[name] = Tried(paimon_java, path, options, has_key=crosses, crosses=crosses)
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # for the index of keys
    if what := refusal({"bucket": "-2"}):
        refused["`bucket = -2`"] = what
    for one in tried.values():
        one.create()
        one.run(pypaimon)
    assert "pypaimon==2.1." in LOCK_LIST.read_text(encoding="utf-8"), "the page says which"
    found = page(tried, refused)
    if rewriting():
        PAGE.write_text(found, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == found, "REWRITE=1 makes it anew"
