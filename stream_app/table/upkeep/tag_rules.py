"""How the options of a table say that tags are given of their own accord, and by which time.

Source: Paimon `tag/TagTimeExtractor.java`, `tag/TagPeriodHandler.java`.
"""

from __future__ import annotations

from datetime import UTC, datetime

from stream_app.errors import UsageError
from stream_app.model.options.tag_options import zone_of
from stream_app.model.snapshot import Snapshot
from stream_app.planning.upkeep.tag_creation import SnapshotTime, TagRules
from stream_app.planning.upkeep.tag_periods import tag_periods
from stream_app.table.file_store_table import FileStoreTable


def tag_rules(table: FileStoreTable) -> TagRules | None:
    """The rules; None when no tags are given of their own accord.

    Raises:
        UsageError: the delay is as long as a period, so no tag would ever be in time.
    """
    options = table.options
    if options.text("tag.automatic-creation") not in ("process-time", "watermark"):
        return None
    periods = tag_periods(
        options.text("tag.creation-period"),
        options.text("tag.period-formatter"),
        options.optional_integer("tag.creation-period-duration"),
    )
    delay_ms = options.integer("tag.creation-delay")
    if delay_ms >= periods.period_ms:
        raise UsageError(
            f"option 'tag.creation-delay': {delay_ms} ms is not below the period of "
            f"{periods.period_ms} ms",
            where=table.location,
            fix="shorten the delay, or lengthen tag.creation-period",
        )
    return TagRules(
        periods=periods,
        delay_ms=delay_ms,
        completes=options.boolean("tag.automatic-completion"),
        num_max=options.optional_integer("tag.num-retained-max"),
    )


def snapshot_time(table: FileStoreTable, snapshot: Snapshot) -> SnapshotTime:
    """The time on the wall by which a snapshot gets its tag."""
    options = table.options
    if options.text("tag.automatic-creation") == "watermark":
        millis, zone = snapshot.watermark, options.text("sink.watermark-time-zone")
    else:
        millis, zone = snapshot.time_millis, options.text("sink.process-time-zone")
    if millis is None:
        return SnapshotTime(snapshot.snapshot_id, None)
    return SnapshotTime(snapshot.snapshot_id, wall_clock_ms(millis, zone))


def process_time_ms(table: FileStoreTable) -> int | None:
    """The time on the wall by which tags are due of themselves; None: they wait for watermarks."""
    if table.options.text("tag.automatic-creation") != "process-time":
        return None
    return wall_clock_ms(table.clock.now_ms(), table.options.text("sink.process-time-zone"))


def wall_clock_ms(millis: int, zone: str) -> int:
    """A moment as a clock in a zone shows it, read as if it were UTC; '': the machine's zone."""
    at = datetime.fromtimestamp(millis // 1000, UTC).astimezone(zone_of(zone) if zone else None)
    offset = at.utcoffset()
    assert offset is not None
    return millis + int(offset.total_seconds() * 1000)
