"""The spans of an epoch, as names with times: pure.

A report has durations, and the moments at which the epoch began and was reported. Reading and
decoding alternate in a task: their spans stand one after the other, each as long as its share. A
compaction's span is as long as its work, and ends with the commit that publishes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from stream_app.spark.ingest.table_feed import EpochReport
from stream_app.table.job.table_job import IdleReport

Facts = Mapping[str, str | int | float]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanTime:
    """A span; times are milliseconds since 1970 in UTC."""

    name: str
    begin_ms: int
    end_ms: int
    facts: Facts = field(default_factory=dict)


def common_spans(report: EpochReport, now_ms: int) -> Iterator[SpanTime]:
    """The parts that an epoch has once for all tables: read, decode, route, wait, write.

    Args:
        report: of the table that was committed first.
        now_ms: when it was reported.
    """
    parts, begin_ms = report.parts, report.began_ms
    for name in ("read", "decode", "route"):
        end_ms = begin_ms + _ms(parts.by_name[name])
        yield SpanTime(name=name, begin_ms=begin_ms, end_ms=end_ms)
        begin_ms = end_ms
    written_ms = now_ms - _ms(parts.commit_s)
    begun_ms = written_ms - _ms(parts.write_s)
    yield SpanTime(name="wait", begin_ms=begun_ms - _ms(parts.wait_s), end_ms=begun_ms)
    yield SpanTime(name="write", begin_ms=begun_ms, end_ms=written_ms)


def commit_spans(table: str, report: EpochReport | IdleReport, now_ms: int) -> Iterator[SpanTime]:
    """The spans of one table's commit, if it is an epoch's, and of the compactions in it."""
    if isinstance(report, EpochReport):
        counts = report.counts
        facts: dict[str, str | int | float] = {
            "stream_app.table": table,
            "stream_app.messages": counts.messages,
            "stream_app.changes": counts.changes,
            "stream_app.bad_records": counts.bad,
            "stream_app.files": report.files,
            "stream_app.bytes": report.bytes,
        }
        begin_ms = now_ms - _ms(report.parts.commit_s)
        yield SpanTime(name="commit", begin_ms=begin_ms, end_ms=now_ms, facts=facts)
    for compaction in report.compactions:
        yield SpanTime(
            name="compaction",
            begin_ms=now_ms - _ms(compaction.seconds),
            end_ms=now_ms,
            facts={
                "stream_app.table": table,
                "stream_app.partition": compaction.partition,
                "stream_app.bucket": compaction.bucket,
                "stream_app.reason": compaction.reason,
                "stream_app.bytes_in": compaction.bytes_in,
                "stream_app.bytes_out": compaction.bytes_out,
            },
        )


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
