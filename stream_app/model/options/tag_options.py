"""The table options of tags, with Paimon's keys and defaults (1.4, `CoreOptions.java`).

Parsed by core_options.
"""

from __future__ import annotations

import datetime
import re
import zoneinfo
from typing import Any

from stream_app.model.options.option import (
    Option,
    boolean_option,
    choice_option,
    duration_option,
    integer_option,
    text_option,
)


def parse_zone(text: str) -> str:
    """The name of a time zone that is known here."""
    try:
        zone_of(text)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        raise ValueError("is no time zone such as Europe/Berlin or GMT+08:00") from None
    return text


def zone_of(text: str) -> datetime.tzinfo:
    """A time zone by name, or by its distance from UTC as Java writes it.

    Raises:
        ValueError, ZoneInfoNotFoundError: there is no such zone.
    """
    match = re.fullmatch(r"(?:UTC|GMT|UT)?([+-])([0-9]{1,2})(?::?([0-9]{2}))?", text)
    if match is None:
        return zoneinfo.ZoneInfo(text)
    minutes = int(match[2]) * 60 + int(match[3] or 0)
    sign = -1 if match[1] == "-" else 1
    return datetime.timezone(datetime.timedelta(minutes=sign * minutes))


TAG_AUTOMATIC_CREATION = choice_option(
    "tag.automatic-creation",
    "none",
    "Whether a job makes tags by itself, and by which time: that of the commit (process-time), "
    "or the watermark, which stream_app does not write. batch tags commits of batch jobs, which "
    "stream_app's job is not.",
    "none",
    "process-time",
    "watermark",
    "batch",
)
TAG_CREATION_PERIOD = choice_option(
    "tag.creation-period",
    "daily",
    "Period of automatic tags: the first snapshot after its end gets the tag. By process time "
    "the job makes an empty one if none comes.",
    "daily",
    "hourly",
    "two-hours",
)
TAG_CREATION_PERIOD_DURATION = duration_option(
    "tag.creation-period-duration", None, "Another period; its tags are named yyyyMMddHHmm."
)
TAG_CREATION_DELAY = duration_option(
    "tag.creation-delay", "0 ms", "Time that a period waits for late rows after its end."
)
TAG_PERIOD_FORMATTER = choice_option(
    "tag.period-formatter",
    "with_dashes",
    "Form of the names of daily and hourly tags: '2026-01-31 07', '20260131 07' or '2026013107'.",
    "with_dashes",
    "without_dashes",
    "without_dashes_and_spaces",
)
TAG_NUM_RETAINED_MAX = integer_option(
    "tag.num-retained-max", None, "Automatic tags beyond this number are deleted.", minimum=1
)
TAG_DEFAULT_TIME_RETAINED = duration_option(
    "tag.default-time-retained",
    None,
    "Time to live of a tag without one of its own (default: for ever).",
)
TAG_AUTOMATIC_COMPLETION = boolean_option(
    "tag.automatic-completion", False, "Make the tags of periods in which no job ran, too."
)
TAG_TIME_EXPIRE_ENABLED = boolean_option(
    "tag.time-expire-enabled", True, "Delete tags whose time to live is over."
)
TAG_CREATE_SUCCESS_FILE = boolean_option(
    "tag.create-success-file",
    False,
    "Write tag/tag-success-file/NAME_SUCCESS beside each tag, for programs that wait for it.",
)
SINK_PROCESS_TIME_ZONE = text_option(
    "sink.process-time-zone",
    None,
    "Time zone of tags by process-time (default: that of the machine).",
    parse=parse_zone,
)
SINK_WATERMARK_TIME_ZONE = text_option(
    "sink.watermark-time-zone", "UTC", "Time zone of tags by watermark.", parse=parse_zone
)

TAG_OPTIONS: tuple[Option[Any], ...] = (
    TAG_AUTOMATIC_CREATION,
    TAG_CREATION_PERIOD,
    TAG_CREATION_PERIOD_DURATION,
    TAG_CREATION_DELAY,
    TAG_PERIOD_FORMATTER,
    TAG_NUM_RETAINED_MAX,
    TAG_DEFAULT_TIME_RETAINED,
    TAG_AUTOMATIC_COMPLETION,
    TAG_TIME_EXPIRE_ENABLED,
    TAG_CREATE_SUCCESS_FILE,
    SINK_PROCESS_TIME_ZONE,
    SINK_WATERMARK_TIME_ZONE,
)
