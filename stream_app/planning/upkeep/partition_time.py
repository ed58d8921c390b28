"""Computes the time in a partition's values, and decides which partitions have expired.

`table.upkeep.expire_partitions` calls it. Times are local wall-clock times as if they were UTC, in
milliseconds, as Paimon compares them. A value without a readable time gives None, and its partition
stays.

Source: Paimon `partition/PartitionTimeExtractor.java`; Java's `DateTimeFormatterBuilder` for what
letters mean. Known letters: y, u, M, d, H, m, s and S; ``MM`` is two digits, ``M`` any number.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from stream_app.errors import UsageError
from stream_app.model.options.core_options import CoreOptions
from stream_app.model.options.expire_options import (
    PARTITION_TIMESTAMP_FORMATTER,
    PARTITION_TIMESTAMP_PATTERN,
)

_DEFAULT = re.compile(
    r"(?P<y>\d{1,10})-(?P<M>\d\d?)-(?P<d>\d\d?)"
    r"(?: (?P<H>\d\d?):(?P<m>\d\d?):(?P<s>\d\d?)(?:\.(?P<S>\d{1,9}))?)?",
    re.ASCII,
)
_TOKEN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|.", re.DOTALL)
_MONTH_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class PartitionTimeReader:
    """A reader of times from partition values.

    Attributes:
        pattern: ``partition.timestamp-pattern``, with ``$column`` for values; None: the first
            column's value.
        formatter: ``partition.timestamp-formatter`` as a regular expression. None: Paimon's two
            default forms, in which a 13th month is the first of the next year, and so on.
    """

    pattern: str | None
    formatter: re.Pattern[str] | None

    def time_ms(self, names: Sequence[str], values: Sequence[str | None]) -> int | None:
        """Return the time of a partition; None if a needed value is null or not a time."""
        texts = dict(zip(names, values, strict=True))
        text = values[0] if self.pattern is None else _fill(self.pattern, texts)
        match = None if text is None else (self.formatter or _DEFAULT).fullmatch(text)
        if match is None:
            return None
        fields = {name: text for name, text in match.groupdict().items() if text is not None}
        return _lenient_time(fields) if self.formatter is None else _smart_time(fields)


def partition_time_reader(options: CoreOptions) -> PartitionTimeReader:
    """Return the reader of partition times that a table's options define.

    Raises:
        UsageError: the formatter has an unsupported letter.
    """
    settings = (PARTITION_TIMESTAMP_PATTERN, PARTITION_TIMESTAMP_FORMATTER)
    return partition_time(*(options[option] or None for option in settings))


def partition_time(pattern: str | None, formatter: str | None) -> PartitionTimeReader:
    """Return the reader of partition times that the two options define.

    Raises:
        UsageError: the formatter has an unsupported letter.
    """
    return PartitionTimeReader(pattern, None if formatter is None else _expression(formatter))


def _fill(pattern: str, values: Mapping[str, str | None]) -> str | None:
    """Replace ``$column`` by values; None if one of these is null.

    Of two matching names the longer one counts. As in Paimon 2.0, nulls in other columns do not
    matter; before, a null in any column kept the partition.
    """
    names = sorted(values, key=len, reverse=True)
    name_pattern = re.compile(rf"\$({'|'.join(map(re.escape, names))})")
    if any(values[match[1]] is None for match in name_pattern.finditer(pattern)):
        return None
    return name_pattern.sub(lambda match: values[match[1]] or "", pattern)


def _expression(formatter: str) -> re.Pattern[str]:
    """Convert a formatter to a regular expression with a group for each letter."""
    parts: list[str] = []
    names: set[str] = set()
    for token in _TOKEN.finditer(formatter):
        text, quoted_text, letter = token[0], token[1], token[2]
        if quoted_text is not None:
            parts.append(re.escape(quoted_text.replace("''", "'") or "'"))
        elif letter is None:
            parts.append(re.escape(text))
        else:
            name = "y" if letter == "u" else letter
            if name not in "yMdHmsS" or name in names or (name in "Mdms" and len(text) > 2):
                raise UsageError(
                    f"option 'partition.timestamp-formatter': {formatter!r} has {text!r}, which "
                    "stream_app cannot read",
                    fix="use y, M, d, H, m, s and S, each once, as in yyyyMMdd or yyyy-MM-dd HH",
                )
            names.add(name)
            if name == "y" and len(text) == 2:
                name = "yy"
            has_fixed_width = len(text) > 1 or name == "S"
            parts.append(
                rf"(?P<{name}>\d{{{len(text)}}})" if has_fixed_width else rf"(?P<{name}>\d{{1,19}})"
            )
    return re.compile("".join(parts), re.ASCII)


def _lenient_time(fields: Mapping[str, str]) -> int | None:
    """Return the time of parts that may exceed their bounds, and then carry over."""
    months = int(fields["M"]) - 1
    year = int(fields["y"]) + months // 12
    days = _day_number(year, months % 12 + 1, 1)
    if days is None:
        return None
    seconds = 3600 * int(fields.get("H", 0)) + 60 * int(fields.get("m", 0))
    seconds += int(fields.get("s", 0))
    return (days + int(fields["d"]) - 1) * _DAY_MS + seconds * 1000 + _fraction_ms(fields)


def _smart_time(fields: Mapping[str, str]) -> int | None:
    """Return the time of parts within bounds; the 31st of a shorter month is its last day."""
    if "yy" in fields:
        year = 2000 + int(fields["yy"])
    elif "y" in fields:
        year = int(fields["y"])
    else:
        return None
    month, day = int(fields.get("M", 0)), int(fields.get("d", 0))
    if not (1 <= month <= 12 and 1 <= day <= 31 and 1 <= year <= datetime.MAXYEAR):
        return None
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    length = 29 if month == 2 and is_leap else _MONTH_LENGTHS[month - 1]
    days = _day_number(year, month, min(day, length))
    hour, minute, second = (int(fields.get(name, 0)) for name in "Hms")
    if days is None or hour > 23 or minute > 59 or second > 59:
        return None
    if not _has_complete_time(fields):
        return days * _DAY_MS
    return days * _DAY_MS + (3600 * hour + 60 * minute + second) * 1000 + _fraction_ms(fields)


def _has_complete_time(fields: Mapping[str, str]) -> bool:
    """Return whether each part comes with all larger ones; otherwise only the date counts."""
    is_present = [name in fields for name in "HmsS"]
    return is_present == sorted(is_present, reverse=True)


def _fraction_ms(fields: Mapping[str, str]) -> int:
    return int(fields.get("S", "0").ljust(3, "0")[:3])


def _day_number(year: int, month: int, day: int) -> int | None:
    """Return the days since 1970; None for a year outside of the supported calendar."""
    try:
        return datetime.date(year, month, day).toordinal() - _EPOCH_DAY
    except (ValueError, OverflowError):
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class DatedPartition:
    """A partition that has files.

    Attributes:
        partition: the serialized partition.
        values: the values as texts, null as the default name; partitions are sorted by them.
        time_ms: the local wall-clock time as if UTC, from which its age counts; None if the
            values give no time, so that the partition stays.
        row_count: the number of rows of all files, including deletes and older versions.
    """

    partition: bytes
    values: tuple[str, ...]
    time_ms: int | None
    file_count: int
    row_count: int
    byte_count: int


def expired_partitions(
    partitions: Iterable[DatedPartition], *, bound_time_ms: int, partitions_max: int
) -> list[DatedPartition]:
    """Return at most `partitions_max` partitions from before a time, ordered by their values."""
    old_partitions = [
        partition
        for partition in partitions
        if partition.time_ms is not None and partition.time_ms < bound_time_ms
    ]
    return sorted(old_partitions, key=lambda partition: ",".join(partition.values))[:partitions_max]


def batches_to_drop(
    partitions: list[DatedPartition], batch_size: int | None
) -> list[list[DatedPartition]]:
    """Return one batch of partitions for each commit; without a size, a single batch."""
    size = batch_size or max(len(partitions), 1)
    return [partitions[start : start + size] for start in range(0, len(partitions), size)]
