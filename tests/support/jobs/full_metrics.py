"""A job's metrics with every family that it can have, but those of the JVM."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from prometheus_client import CollectorRegistry

from stream_app.app.load.load_progress import LoadedRanges, LoadProgress
from stream_app.app.observe.metrics.job_metrics import JobMetrics
from stream_app.cdc.change_batch import Violation
from stream_app.cdc.column_drift import DriftKind
from stream_app.epochs.rounds.table_listener import EpochReport
from stream_app.epochs.stages.decode_counts import DecodeCounts, PartitionEnd, RecordSighting
from stream_app.epochs.stream.running_stream import SourceProgress
from stream_app.format.snapshot_properties.proof_json import encode_proof
from stream_app.model.checksum.source_proof import SourceProof
from stream_app.model.snapshot import PROOF_PROPERTY
from stream_app.quarantine.quarantine_writer import QuarantineReport
from stream_app.table.compact.compaction_metrics import CompactionMetrics
from stream_app.table.compact.compaction_report import CompactionReport
from stream_app.table.job.table_maintenance import MaintenanceMetrics
from tests.support.tables.numbered_snapshots import a_snapshot
from tests.tidy.project_files import text_of

COMPACTION = CompactionReport(
    partition="", bucket=0, reason="size ratio", levels=(0, 0), output_level=5, files_in=2,
    bytes_in=3072, files_out=1, bytes_out=2048, upgraded=0, seconds=0.5,
)  # fmt: skip
PROOF = SourceProof(source="a database", checksum="7 rows", time_ms=1000)
PROVEN = replace(a_snapshot(1), properties={PROOF_PROPERTY: encode_proof(PROOF)})
BROKEN, FIRST = Violation("positive-amount", "drop"), RecordSighting(1, "t", 0, 7)


def fill(of_table: JobMetrics) -> None:
    """Report an epoch of one table with everything in it, and the numbers of its compactions."""
    aside = QuarantineReport(file="f", first_text="", reasons={"value": 1})
    ends = {("t", 0): PartitionEnd(7, 1000)}
    of_table.count_epoch(
        EpochReport(
            epoch=0, quarantine_report=aside,
            counts=DecodeCounts(message_count=5, ends=ends, violations={BROKEN: FIRST}),
            snapshots=(PROVEN,), compactions=(COMPACTION,),
        )
    )  # fmt: skip
    for kind in DriftKind:
        of_table.count_drift(kind, "phone", 1)
    numbers = CompactionMetrics(flushed_byte_count=1, file_count=3, byte_count=4)
    of_table.compactions.add(of_table.label, lambda: numbers)
    of_table.maintenance.add(of_table.label, MaintenanceMetrics)
    of_table.callbacks.add(of_table.label, lambda: ())


def full_metrics(tables: int = 1) -> JobMetrics:
    """Return the metrics of a job of a database."""
    job = JobMetrics("db", folders={"warehouse": Path("/")})
    for number in range(tables):
        fill(job.of_table(f"t{number}"))
        job.note_held_table(f"t{number}", None)
    job.set_unresolved_records({"t0": 1})
    job.note_decoder("arrays")
    load = LoadProgress(begun_time_ms=0, of_tables={"t0": LoadedRanges(1, 3)})
    job.read_load_from(lambda: load)
    job.note_progress(SourceProgress(0, 1, 0, {}, {("t", "0"): 0}), 1000)
    return job


_ROW = re.compile(r"^\| `(stream_app_\w+)` \| (\w+) \| ([\w, ]*) \| (\w+) \| \S", re.MULTILINE)
_UNITS = {"_seconds": "s", "_bytes": "bytes", "_ratio": "ratio"}
_OF_SPARK = re.compile(r"stream_app_(jvm_|executors$|tasks_running$)")


@dataclass(frozen=True)
class MetricFacts:
    """A metric by the name of its samples, with `unit` if the name tells it."""

    name: str
    kind: str
    labels: frozenset[str]
    unit: str

    @property
    def is_of_spark(self) -> bool:
        return _OF_SPARK.match(self.name) is not None


def metrics_page() -> Iterator[MetricFacts]:
    """Yield the metrics that docs/operate/monitoring.md has in its tables."""
    for name, kind, labels, unit in _ROW.findall(text_of("docs/operate/monitoring.md")):
        assert unit in _UNITS.values() or unit_of(name) == "", f"{name}: {unit}"
        suffix = unit if unit in _UNITS.values() else ""
        yield MetricFacts(name, kind, frozenset(labels.split(", ")), suffix)


def metrics_of(registry: CollectorRegistry) -> Iterator[MetricFacts]:
    """Yield the metrics that an endpoint gives."""
    for family in registry.collect():
        name = family.name + ("_total" if family.type == "counter" else "")
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        assert family.samples, f"{name} is not filled by full_metrics"
        yield MetricFacts(name, family.type, frozenset(labels), unit_of(name))


def unit_of(name: str) -> str:
    plain = name.removesuffix("_total")
    return next((unit for ending, unit in _UNITS.items() if plain.endswith(ending)), "")
