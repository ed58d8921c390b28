"""Declares the table options of tags.

Keys and defaults are Paimon's (1.4, `CoreOptions.java`). `core_options` parses them.
"""

from __future__ import annotations

import datetime
import re
import zoneinfo

from stream_app.model.options.option import BOOLEAN, CHOICE, DURATION, INTEGER, Option, OptionKind


def parse_zone(text: str) -> str:
    """Check and return the name of a time zone that this machine knows."""
    try:
        zone_of(text)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        raise ValueError("is not a time zone such as Europe/Berlin or GMT+08:00") from None
    return text


def zone_of(text: str) -> datetime.tzinfo:
    """Return a time zone by its name, or by its offset from UTC in Java's notation.

    Raises:
        ValueError, ZoneInfoNotFoundError: the zone does not exist.
    """
    match = re.fullmatch(r"(?:UTC|GMT|UT)?([+-])([0-9]{1,2})(?::?([0-9]{2}))?", text)
    if match is None:
        return zoneinfo.ZoneInfo(text)
    minutes = int(match[2]) * 60 + int(match[3] or 0)
    sign = -1 if match[1] == "-" else 1
    return datetime.timezone(datetime.timedelta(minutes=sign * minutes))


_ZONE = OptionKind("text", parse_zone)

TAG_AUTOMATIC_CREATION = Option(
    "tag.automatic-creation",
    CHOICE,
    "none",
    "Whether a job makes tags by itself, and by which time: that of the commit (process-time), "
    "or the watermark, which stream_app does not write. With batch, only batch jobs make tags, "
    "and a job of stream_app is not one.",
    only=("none", "process-time", "watermark", "batch"),
)
TAG_CREATION_PERIOD = Option(
    "tag.creation-period",
    CHOICE,
    "daily",
    "Period of automatic tags: the first snapshot after its end gets the tag. By process time "
    "the job commits an empty snapshot if no other one comes.",
    only=("daily", "hourly", "two-hours"),
)
TAG_CREATION_PERIOD_DURATION = Option(
    "tag.creation-period-duration",
    DURATION,
    None,
    "Length of a period other than those of tag.creation-period. Its tags are named yyyyMMddHHmm.",
)
TAG_CREATION_DELAY = Option(
    "tag.creation-delay", DURATION, 0, "Time that a period waits for late rows after its end."
)
TAG_PERIOD_FORMATTER = Option(
    "tag.period-formatter",
    CHOICE,
    "with_dashes",
    "Form of the names of daily and hourly tags: '2026-01-31 07', '20260131 07' or '2026013107'.",
    only=("with_dashes", "without_dashes", "without_dashes_and_spaces"),
)
TAG_NUM_RETAINED_MAX = Option(
    "tag.num-retained-max",
    INTEGER,
    None,
    "Automatic tags beyond this number are deleted.",
    minimum=1,
)
TAG_DEFAULT_TIME_RETAINED = Option(
    "tag.default-time-retained",
    DURATION,
    None,
    "Time to live of a tag without one of its own (default: forever).",
)
TAG_AUTOMATIC_COMPLETION = Option(
    "tag.automatic-completion", BOOLEAN, False, "Make the tags of periods in which no job ran, too."
)
TAG_TIME_EXPIRE_ENABLED = Option(
    "tag.time-expire-enabled", BOOLEAN, True, "Delete tags whose time to live is over."
)
TAG_CREATE_SUCCESS_FILE = Option(
    "tag.create-success-file",
    BOOLEAN,
    False,
    "Write tag/tag-success-file/NAME_SUCCESS beside each tag, for programs that wait for it.",
)
SINK_PROCESS_TIME_ZONE = Option(
    "sink.process-time-zone",
    _ZONE,
    "",
    "Time zone of tags by process-time (default: that of the machine).",
)
SINK_WATERMARK_TIME_ZONE = Option(
    "sink.watermark-time-zone",
    _ZONE,
    "UTC",
    "Time zone of tags by watermark.",
)
