"""Declares keys of the configuration, and converts a TOML value or a text for each.

A section declares a key as a field: `web_port: int | None = key(integer(1, 65535), None)`.
`app_config` calls the key's converter, which returns the value or raises `WrongValueError` with
words that continue after "source.topics: …".
"""

from __future__ import annotations

import enum
import json
import re
import tomllib
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

from stream_app.errors import UsageError
from stream_app.fileio.file_io_registry import is_local
from stream_app.fileio.local_file_io import local_path
from stream_app.jdbc import SERVERS, parse_jdbc_url
from stream_app.model.bracketed_text import split_outside_brackets
from stream_app.model.options.option import parse_boolean, parse_retention_ms
from stream_app.model.schema.data_type import RowType, parse_columns

SET_BY_SPARK = {
    "bootstrap.servers": "use source.bootstrap-servers",
    "auto.offset.reset": "use source.starting-offsets",
    "enable.auto.commit": "the job keeps the offsets in the checkpoint",
    "interceptor.classes": "Spark's source does not allow it",
    "key.deserializer": "Spark reads bytes",
    "value.deserializer": "Spark reads bytes",
}
"""Options of Kafka's client that users cannot set, and the alternatives."""

FILE_NAME_BYTES_MAX = 250
"""255 on most file systems, less the suffix of a database's folder."""
Value = TypeVar("Value")
Member = TypeVar("Member", bound=enum.Enum)
TopicTimes = Mapping[str, int | Mapping[str, int]]
"""Topic, or topic and partition → milliseconds since 1970."""
_TRIGGER = re.compile(r"\d+ +(millisecond|second|minute|hour)s?")


@dataclass(frozen=True, slots=True)
class Setting:
    """A value and where it came from; from the environment and ``--set`` it is always text.

    Attributes:
        secrets: texts that references brought in, which no output may show.
    """

    value: object = field(repr=False)
    origin: str
    is_text: bool = False
    secrets: tuple[str, ...] = field(default=(), repr=False)


class WrongValueError(ValueError):
    """A value does not fit its key."""


def key(read: Callable[[Setting], Value], default: Value, *, is_secret: bool = False) -> Value:
    """Declare a field as a key of its section, with its converter and its default."""
    declared: Value = field(default=default, repr=not is_secret, metadata={"read": read})
    return declared


@dataclass(frozen=True, slots=True)
class KeyFamily:
    """The keys with a prefix.

    Attributes:
        name: the field that holds their values, by the rest of their names.
        read: converts a value; it also gets the rest of its key's name.
    """

    name: str
    read: Callable[[Setting, str], object]


def key_family(
    *prefixes: str,
    read: Callable[[Setting, str], object] = lambda setting, _rest: free_text(setting),
    is_secret: bool = False,
) -> Any:
    """Declare a field for all keys with a prefix, with the converter of `KeyFamily`."""
    metadata = {"prefixes": prefixes, "read_member": read}
    return field(default_factory=dict, repr=not is_secret, metadata=metadata)


def keys_of(section: type[Any]) -> dict[str, Callable[[Setting], object]]:
    """The keys that a section's fields declare, and their converters."""
    return {
        one.name.replace("_", "-"): one.metadata["read"]
        for one in fields(section)
        if "read" in one.metadata
    }


def families_of(section: type[Any]) -> dict[str, KeyFamily]:
    """The prefixes of further keys of a section, and the family of each."""
    return {
        prefix: KeyFamily(one.name, one.metadata["read_member"])
        for one in fields(section)
        for prefix in one.metadata.get("prefixes", ())
    }


def text(setting: Setting) -> str:
    """A string that is not blank."""
    if not isinstance(setting.value, str):
        raise WrongValueError(f"must be a string, is {_kind(setting.value)}")
    if not setting.value.strip():
        raise WrongValueError("must not be empty")
    if "\0" in setting.value:
        raise WrongValueError(f"must hold no NUL character, is {setting.value[:80]!r}")
    return setting.value


def folder(setting: Setting) -> str:
    """A path on the driver, which a ``file:`` URI becomes too, or ``SCHEME://…`` of a cluster."""
    location = text(setting)
    if not is_local(location):
        if not re.fullmatch(r"[a-z][a-z0-9+.-]*://.*[^/]/*", location):
            raise WrongValueError(
                f"{location!r} is not a folder: give a path, s3://BUCKET/PATH, hdfs://HOST/PATH or "
                "another that Spark's Hadoop knows"
            )
        return location.rstrip("/")
    try:
        path = local_path(location)
    except UsageError as error:
        raise WrongValueError(f"{error.what}: {error.fix}") from None
    return path if location.startswith("file:") else location


def boolean(setting: Setting) -> bool:
    """A boolean."""
    if isinstance(setting.value, bool):
        return setting.value
    with suppress(ValueError):
        if setting.is_text:
            return parse_boolean(str(setting.value))
    raise WrongValueError(f"must be true or false, is {_kind(setting.value)}")


def integer(minimum: int, maximum: int | None = None) -> Callable[[Setting], int]:
    """A whole number from `minimum` on, up to `maximum`."""

    def convert(setting: Setting) -> int:
        value = setting.value
        if setting.is_text and re.fullmatch(r"[+-]?\d+", str(value)):
            value = int(str(value))
        if isinstance(value, bool) or not isinstance(value, int):
            raise WrongValueError(f"must be a whole number, is {_kind(value)}")
        if value < minimum:
            raise WrongValueError(f"must be at least {minimum}, is {value}")
        if maximum is not None and value > maximum:
            raise WrongValueError(f"must be at most {maximum}, is {value}")
        return value

    return convert


def names(setting: Setting) -> tuple[str, ...]:
    """A list of strings; as text ``a,b`` or ``["a", "b"]``."""
    value = setting.value
    if setting.is_text:
        value = [part.strip() for part in str(value).strip("[] ").split(",")]
        value = [part.strip("\"'") for part in value if part]
    if not isinstance(value, list) or not all(isinstance(part, str) and part for part in value):
        raise WrongValueError(f'must be a list of strings such as ["a", "b"], is {_kind(value)}')
    return tuple(value)


def some_names(setting: Setting) -> tuple[str, ...]:
    """A list of strings that is not empty."""
    listed = names(setting)
    if not listed:
        raise WrongValueError("must name at least one")
    return listed


def host_names(setting: Setting) -> tuple[str, ...]:
    """Host names without a port; ``*``: any."""
    listed = names(setting)
    for name in listed:
        if name != "*" and not re.fullmatch(r"[\w.-]+", name):
            raise WrongValueError(f"must be names such as 'page.example.org', has {name!r}")
    return listed


def definitions(setting: Setting) -> tuple[str, ...]:
    """A list of strings; as text it may hold commas inside of brackets."""
    if not setting.is_text:
        return some_names(setting)
    given = str(setting.value).strip()
    if given.startswith("["):
        try:
            value = tomllib.loads(f"value = {given}")["value"]
        except tomllib.TOMLDecodeError as error:
            raise WrongValueError(f"is not a list of strings: {error}") from None
        return some_names(Setting(value, setting.origin))
    parts = [part.strip() for part in split_outside_brackets(given) if part.strip()]
    return some_names(Setting(parts, setting.origin))


def any_definitions(setting: Setting) -> tuple[str, ...]:
    """Parse as `definitions` does; an empty list means none."""
    return () if setting.value == [] else definitions(setting)


def columns(setting: Setting) -> RowType:
    """Column definitions, as in SQL."""
    try:
        return parse_columns(text(setting))
    except UsageError as error:
        raise WrongValueError(f"{error.what} ({error.fix})") from None


def one_of(*values: str) -> Callable[[Setting], str]:
    """Accept one of a few strings."""

    def convert(setting: Setting) -> str:
        value = text(setting)
        if value not in values:
            raise WrongValueError(f"must be {' or '.join(map(repr, values))}, is {value!r}")
        return value

    return convert


def member(choices: type[Member]) -> Callable[[Setting], Member]:
    """A member of `choices`, by its value."""
    read = one_of(*(choice.value for choice in choices))
    return lambda setting: choices(read(setting))


def web_address(*words: str) -> Callable[[Setting], str]:
    """An ``http://`` or ``https://`` address, or one of some words; no message shows its text."""

    def convert(setting: Setting) -> str:
        value = text(setting)
        parts = urlsplit(value)
        if value not in words and not (parts.scheme in ("http", "https") and parts.hostname):
            others = "".join(f" or {word!r}" for word in words)
            raise WrongValueError(f"must be an address as https://HOST/PATH{others}")
        return value

    return convert


def database_address(setting: Setting) -> str:
    """A JDBC URL without a password, because command lines show it."""
    value = text(setting)
    try:
        url = parse_jdbc_url(value, "the text", SERVERS)
    except UsageError as error:
        raise WrongValueError(f"{error.what}: {error.fix}") from None
    if url.password:
        raise WrongValueError("must have no password: give it in source.snapshot-password")
    given = parse_qsl(urlsplit(value.removeprefix("jdbc:")).query, keep_blank_values=True)
    if unknown := [name for name, _ in given if name != "user"]:
        raise WrongValueError(
            f"must have no parameter but user, and has {', '.join(unknown)}; the variables "
            "PGSSLMODE and PGSSLROOTCERT set PostgreSQL's TLS"
        )
    return value


def identifier(setting: Setting) -> str:
    """A database's or table's name, which becomes the name of a folder."""
    value = text(setting)
    if not re.fullmatch(r"[^/\\$.\s]+", value):
        raise WrongValueError(f"{value!r} must hold no blank, dot, slash or dollar sign")
    if re.search(r"[\x00-\x1f\x7f]", value):
        raise WrongValueError(f"{value!r} must hold no control character")
    if (size := len(value.encode())) > FILE_NAME_BYTES_MAX:
        raise WrongValueError(
            f"{value[:40]!r}… has {size} bytes, the name of a folder has {FILE_NAME_BYTES_MAX} at "
            "most"
        )
    return value


def trigger(setting: Setting) -> str:
    """Accept ``availableNow``, or an interval as Spark's processing-time trigger parses it."""
    value = text(setting).strip()
    if value != "availableNow" and not _TRIGGER.fullmatch(value.lower()):
        raise WrongValueError(f"must be 'availableNow' or such as '5 seconds', is {value!r}")
    return value


def milliseconds(setting: Setting) -> int:
    """A duration, such as ``5 min``."""
    try:
        return parse_retention_ms(text(setting))
    except ValueError:
        raise WrongValueError(f"must be at least '1 second', is {setting.value!r}") from None


def regular_expression(setting: Setting) -> str:
    """A pattern with the same meaning in Python and in Java, the language of Spark's source."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)  # of Java's nested sets, such as [a&&[b]]
            re.compile(text(setting))
    except (re.error, FutureWarning) as error:
        raise WrongValueError(f"is not a regular expression: {error}") from None
    return str(setting.value)


def offsets(setting: Setting) -> str:
    """Accept ``earliest``, ``latest``, or offsets by topic and partition as JSON."""
    value = text(setting)
    if value in ("earliest", "latest"):
        return value
    try:
        parsed = json.loads(value)
    except ValueError:
        parsed = None
    whole = isinstance(parsed, dict) and all(
        isinstance(topic, dict) and all(type(offset) is int for offset in topic.values())
        for topic in parsed.values()
    )
    if not whole:
        raise WrongValueError(
            "must be 'earliest', 'latest' or JSON such as '{\"topic\": {\"0\": 23, \"1\": -2}}' "
            f"(-2 earliest, -1 latest), is {value!r}"
        )
    return value


def timestamp(setting: Setting) -> int:
    """Milliseconds since 1970, or ISO 8601 with a time zone."""
    value = setting.value
    if isinstance(value, datetime):
        value = value.isoformat()
    if isinstance(value, str):
        with suppress(ValueError):
            if value.isdigit():
                return int(value)
            moment = datetime.fromisoformat(value)
            if moment.tzinfo is not None:
                return round(moment.timestamp() * 1000)
    elif type(value) is int and value >= 0:
        return value
    raise WrongValueError(
        "must be milliseconds since 1970, or a time with its zone such as "
        f"'2026-11-27T08:00:00Z', is {_kind(setting.value)}"
    )


def topic_times(setting: Setting) -> TopicTimes:
    """JSON: a time for each topic, or for each partition of a topic; milliseconds since 1970."""
    value = text(setting)
    with suppress(ValueError):
        parsed = json.loads(value)
        if isinstance(parsed, dict) and all(map(_is_time_of_topic, parsed.values())):
            return parsed
    raise WrongValueError(
        "must be JSON of milliseconds since 1970, such as '{\"orders\": 1764230400000}' or "
        f'\'{{"orders": {{"0": 1764230400000}}}}\', is {value!r}'
    )


def _is_time_of_topic(value: object) -> bool:
    times = value.values() if isinstance(value, dict) else (value,)
    return all(type(time) is int and time >= 0 for time in times)


def free_text(setting: Setting) -> str:
    """A value that is passed on as text: a setting of Paimon, Kafka or Spark."""
    value = setting.value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return ",".join(value)
    if isinstance(value, str | int | float):
        return str(value)
    raise WrongValueError(f"must be a string, number or truth value, is {_kind(value)}")


def _kind(value: object) -> str:
    kinds = {bool: "a truth value", int: "a whole number", float: "a fractional number"}
    kinds |= {str: "a string", list: "a list", dict: "a table"}
    return (
        f"{kinds.get(type(value), 'a ' + type(value).__name__)} ({json.dumps(value, default=str)})"
    )
