"""The job creates after commits the tags for which a table's options ask."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from stream_app.clock import wall_clock_ms
from stream_app.errors import UsageError
from stream_app.model.options.tag_options import zone_of
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.upkeep.tag_upkeep import TagUpkeep
from stream_app.table.upkeep.tags import create_tag, new_tag
from tests.support.tables.small_table import TIME_MS, SmallTable, SteppingClock, small_table

pytestmark = pytest.mark.usefixtures("unsynced")
HOUR_MS = 3_600_000


@dataclass
class Hourly:
    """A table that commits each hour, from 2026-01-01T00 on."""

    table: SmallTable
    clock: SteppingClock

    def commit(self, hours: int = 1) -> None:
        self.clock.millis += hours * HOUR_MS
        self.table.commit(("+I", {"k": 1}))

    def names(self) -> list[str]:
        return self.table.table.tags.names()


def hourly(folder: Path, **options: Any) -> Hourly:
    table = small_table(
        folder / "t", "k INT", ("k",), tag__automatic_creation="process-time",
        tag__creation_period="hourly", **options,
    )  # fmt: skip
    table.table = _with(table.table, **{"sink.process-time-zone": "UTC"})
    clock = table.table.clock
    assert isinstance(clock, SteppingClock)
    return Hourly(table, clock)


def test_each_hour_is_tagged_once_also_after_a_restart(tmp_path: Path) -> None:
    job = hourly(tmp_path)
    upkeep = TagUpkeep(job.table.table)
    assert upkeep.run().created_names == ()
    job.commit()
    job.commit(0)
    assert upkeep.run().created_names == ("2026-01-01 00",)
    job.commit(2)
    assert TagUpkeep(job.table.table).run().created_names == ("2026-01-01 02",)
    assert TagUpkeep(job.table.table).run().created_names == ()
    tags = {tag.name: tag.snapshot.snapshot_id for tag in job.table.table.tags.tags()}
    assert tags == {"2026-01-01 00": 1, "2026-01-01 02": 3}


def test_the_oldest_tags_of_periods_go_beyond_the_number(tmp_path: Path) -> None:
    job = hourly(tmp_path, tag__num_retained_max=2)
    upkeep = TagUpkeep(job.table.table)
    job.commit()
    assert create_tag(job.table.table, new_tag(job.table.table, "mine"))
    upkeep.run()
    for _ in range(3):
        job.commit()
        report = upkeep.run()
    assert report.deleted_names == ("2026-01-01 01",)
    assert job.names() == ["2026-01-01 02", "2026-01-01 03", "mine"]


def test_tags_go_when_their_time_is_over(tmp_path: Path) -> None:
    job = hourly(tmp_path, tag__default_time_retained="90 min")
    upkeep = TagUpkeep(job.table.table)
    job.commit()
    upkeep.run()
    job.commit()
    assert upkeep.run().deleted_names == ()
    job.commit()
    assert upkeep.run().deleted_names == ("2026-01-01 00",)
    table = _with(job.table.table, **{"tag.time-expire-enabled": "false"})
    job.commit(10)
    assert TagUpkeep(table).run().deleted_names == ()


def test_a_tag_that_lies_ahead_of_the_table_makes_no_snapshots(tmp_path: Path) -> None:
    job = hourly(tmp_path)
    table = job.table.table
    job.commit()
    ahead = new_tag(table, "2025-12-31 20", 1)
    table.tags.create(replace(ahead, snapshot=replace(ahead.snapshot, snapshot_id=5000)))
    job.clock.millis += 2 * HOUR_MS
    upkeep = TagUpkeep(table)
    assert upkeep.is_due()
    assert upkeep.run(makes_snapshots=True).created_names == ()
    assert table.snapshots.ids() == [1]


def test_without_the_option_nothing_is_tagged(tmp_path: Path) -> None:
    job = hourly(tmp_path)
    job.commit()
    for mode in ("none", "batch"):
        table = _with(job.table.table, **{"tag.automatic-creation": mode})
        assert TagUpkeep(table).run().created_names == ()


def test_a_table_without_watermarks_gets_a_warning_that_no_tag_comes_by_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job = hourly(tmp_path)
    table = _with(job.table.table, **{"tag.automatic-creation": "watermark"})
    upkeep = TagUpkeep(table)
    for _ in range(3):
        job.commit()
        assert upkeep.run().created_names == ()
    assert [record.message[:31] for record in caplog.records] == ["no tags are made: they follow t"]


def test_a_snapshot_has_one_tag_of_a_period(tmp_path: Path) -> None:
    job = hourly(tmp_path)
    job.commit()
    TagUpkeep(job.table.table).run()
    with pytest.raises(UsageError, match="already has the automatic tag '2026-01-01 00'"):
        new_tag(job.table.table, "2026-01-01 05", 1)


def test_a_delay_as_long_as_the_period_is_refused(tmp_path: Path) -> None:
    table = hourly(tmp_path, tag__creation_delay="1 h").table.table
    with pytest.raises(UsageError, match="not below the period"):
        TagUpkeep(table).run()


def test_a_time_is_read_from_the_clock_on_the_wall() -> None:
    assert wall_clock_ms(TIME_MS, zone_of("UTC")) == TIME_MS
    assert wall_clock_ms(TIME_MS, zone_of("Asia/Tokyo")) == TIME_MS + 9 * HOUR_MS
    assert wall_clock_ms(TIME_MS, zone_of("GMT-03:30")) == TIME_MS - 7 * HOUR_MS // 2
    assert wall_clock_ms(TIME_MS, zone_of("+8")) == TIME_MS + 8 * HOUR_MS
    july = TIME_MS + 181 * 24 * HOUR_MS
    assert wall_clock_ms(TIME_MS + 1, zone_of("Europe/Berlin")) == TIME_MS + HOUR_MS + 1
    assert wall_clock_ms(july, zone_of("Europe/Berlin")) == july + 2 * HOUR_MS


def _with(table: FileStoreTable, **options: str) -> FileStoreTable:
    schema = replace(table.schema, options={**table.schema.options, **options})
    return replace(table, schema=schema)
