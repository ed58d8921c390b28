"""Converts the values of the configuration's keys from TOML or text.

`config_keys` declares a key with its converter, and `app_config` calls the converter. It returns
the value or raises `WrongValueError`. The error's text continues a line such as "source.topics: …".
"""

from __future__ import annotations

import enum
import json
import re
import tomllib
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar
from urllib.parse import parse_qsl, urlsplit

from stream_app.errors import UsageError
from stream_app.fileio.local.local_file_io import local_path
from stream_app.fileio.store_registry import STORE_LOCATIONS, is_local
from stream_app.model.bracketed_text import split_outside_brackets
from stream_app.model.options.option import parse_boolean, parse_retention_ms
from stream_app.model.schema.data_type import RowType, parse_columns
from stream_app.network.jdbc import SERVERS, parse_jdbc_url

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
"""The maximum bytes of a name: 255 on most file systems, less the suffix of a database's folder."""
Value = TypeVar("Value")
Member = TypeVar("Member", bound=enum.Enum)
TopicTimes = Mapping[str, int | Mapping[str, int]]
"""Topic, or topic and partition → milliseconds since 1970."""
_TRIGGER = re.compile(r"\d+ +(millisecond|second|minute|hour)s?")


@dataclass(frozen=True, slots=True)
class Setting:
    """A value and what gave it. A value from the environment or ``--set`` is always text.

    Attributes:
        secrets: texts that replaced references, and that no output may contain.
    """

    value: object = field(repr=False)
    given_by: str
    is_text: bool = False
    secrets: tuple[str, ...] = field(default=(), repr=False)


class WrongValueError(ValueError):
    """A value does not fit its key."""


def text(setting: Setting) -> str:
    """Convert to a string that is not blank."""
    if not isinstance(setting.value, str):
        raise WrongValueError(f"must be a string, is {_describe_value(setting.value)}")
    if not setting.value.strip():
        raise WrongValueError("must not be empty")
    if "\0" in setting.value:
        raise WrongValueError(f"must not contain a NUL character, is {setting.value[:80]!r}")
    return setting.value


def folder(setting: Setting) -> str:
    """Convert to a local path, also from a ``file:`` URI, or to a cluster's ``SCHEME://…``."""
    location = text(setting)
    if not is_local(location):
        if not re.fullmatch(r"[a-z][a-z0-9+.-]*://.*[^/]/*", location):
            raise WrongValueError(
                f"{location!r} is not a folder: give {STORE_LOCATIONS}, or another scheme "
                "that Spark's Hadoop supports"
            )
        return location.rstrip("/")
    try:
        path = local_path(location)
    except UsageError as error:
        raise WrongValueError(f"{error.problem}: {error.fix}") from None
    return path if location.startswith("file:") else location


def boolean(setting: Setting) -> bool:
    """Convert to a boolean."""
    if isinstance(setting.value, bool):
        return setting.value
    with suppress(ValueError):
        if setting.is_text:
            return parse_boolean(str(setting.value))
    raise WrongValueError(f"must be true or false, is {_describe_value(setting.value)}")


def integer(minimum: int, maximum: int | None = None) -> Callable[[Setting], int]:
    """Return a converter to an integer from `minimum` to `maximum`."""

    def convert(setting: Setting) -> int:
        value = setting.value
        if setting.is_text and re.fullmatch(r"[+-]?\d+", str(value)):
            value = int(str(value))
        if isinstance(value, bool) or not isinstance(value, int):
            raise WrongValueError(f"must be a whole number, is {_describe_value(value)}")
        if value < minimum:
            raise WrongValueError(f"must be at least {minimum}, is {value}")
        if maximum is not None and value > maximum:
            raise WrongValueError(f"must be at most {maximum}, is {value}")
        return value

    return convert


def any_names(setting: Setting) -> tuple[str, ...]:
    """Convert to a list of strings, also from the texts ``a,b`` and ``["a", "b"]``."""
    value = setting.value
    if setting.is_text:
        value = [part.strip() for part in str(value).strip("[] ").split(",")]
        value = [part.strip("\"'") for part in value if part]
    if not isinstance(value, list) or not all(isinstance(part, str) and part for part in value):
        raise WrongValueError(
            f'must be a list of strings such as ["a", "b"], is {_describe_value(value)}'
        )
    return tuple(value)


def some_names(setting: Setting) -> tuple[str, ...]:
    """Convert to a non-empty list of strings."""
    strings = any_names(setting)
    if not strings:
        raise WrongValueError("must name at least one")
    return strings


def host_names(setting: Setting) -> tuple[str, ...]:
    """Convert to a list of host names without a port; ``*`` means any."""
    hosts = any_names(setting)
    for name in hosts:
        if name != "*" and not re.fullmatch(r"[\w.-]+", name):
            raise WrongValueError(f"must be names such as 'page.example.org', has {name!r}")
    return hosts


def definitions(setting: Setting) -> tuple[str, ...]:
    """Convert to a list of strings. In a text, commas inside of brackets separate nothing."""
    if not setting.is_text:
        return some_names(setting)
    definitions_text = str(setting.value).strip()
    if definitions_text.startswith("["):
        try:
            value = tomllib.loads(f"value = {definitions_text}")["value"]
        except tomllib.TOMLDecodeError as error:
            raise WrongValueError(f"is not a list of strings: {error}") from None
        return some_names(Setting(value, setting.given_by))
    parts = [part.strip() for part in split_outside_brackets(definitions_text) if part.strip()]
    return some_names(Setting(parts, setting.given_by))


def any_definitions(setting: Setting) -> tuple[str, ...]:
    """Convert as `definitions` does, but also accept an empty list."""
    return () if setting.value == [] else definitions(setting)


def columns(setting: Setting) -> RowType:
    """Convert SQL column definitions to a row type."""
    try:
        return parse_columns(text(setting))
    except UsageError as error:
        raise WrongValueError(f"{error.problem} ({error.fix})") from None


def one_of(*values: str) -> Callable[[Setting], str]:
    """Return a converter that accepts only these strings."""

    def convert(setting: Setting) -> str:
        value = text(setting)
        if value not in values:
            raise WrongValueError(f"must be {' or '.join(map(repr, values))}, is {value!r}")
        return value

    return convert


def member_of(choices: type[Member]) -> Callable[[Setting], Member]:
    """Return a converter to the member of `choices` with this value."""
    convert = one_of(*(choice.value for choice in choices))
    return lambda setting: choices(convert(setting))


def web_address(*words: str) -> Callable[[Setting], str]:
    """Return a converter that accepts an HTTP address or some words.

    Its errors do not show the text.
    """

    def convert(setting: Setting) -> str:
        value = text(setting)
        parts = urlsplit(value)
        if value not in words and not (parts.scheme in ("http", "https") and parts.hostname):
            alternatives = "".join(f" or {word!r}" for word in words)
            raise WrongValueError(f"must be an address such as https://HOST/PATH{alternatives}")
        return value

    return convert


def database_address(setting: Setting) -> str:
    """Convert to a JDBC URL, and refuse a password in it, because command lines show it."""
    value = text(setting)
    try:
        url = parse_jdbc_url(value, "the text", SERVERS)
    except UsageError as error:
        raise WrongValueError(f"{error.problem}: {error.fix}") from None
    if url.password:
        raise WrongValueError("must have no password: give it in source.snapshot-password")
    parameters = parse_qsl(urlsplit(value.removeprefix("jdbc:")).query, keep_blank_values=True)
    if unknown_names := [name for name, _ in parameters if name != "user"]:
        raise WrongValueError(
            f"must have no parameter but user, and has {', '.join(unknown_names)}; the variables "
            "PGSSLMODE and PGSSLROOTCERT set PostgreSQL's TLS"
        )
    return value


def identifier(setting: Setting) -> str:
    """Convert to the name of a database or table, which must be usable as a folder's name."""
    value = text(setting)
    if not re.fullmatch(r"[^/\\$.\s]+", value):
        raise WrongValueError(f"{value!r} must not contain a blank, dot, slash or dollar sign")
    if re.search(r"[\x00-\x1f\x7f]", value):
        raise WrongValueError(f"{value!r} must not contain a control character")
    if (size := len(value.encode())) > FILE_NAME_BYTES_MAX:
        raise WrongValueError(
            f"{value[:40]!r}… has {size} bytes, the name of a folder has {FILE_NAME_BYTES_MAX} at "
            "most"
        )
    return value


def trigger(setting: Setting) -> str:
    """Convert to ``availableNow``, or to an interval of Spark's processing-time trigger."""
    value = text(setting).strip()
    if value != "availableNow" and not _TRIGGER.fullmatch(value.lower()):
        raise WrongValueError(f"must be 'availableNow' or a time such as '5 seconds', is {value!r}")
    return value


def milliseconds(setting: Setting) -> int:
    """Convert a duration such as ``5 min`` to milliseconds."""
    try:
        return parse_retention_ms(text(setting))
    except ValueError:
        raise WrongValueError(f"must be at least '1 second', is {setting.value!r}") from None


def regular_expression(setting: Setting) -> str:
    """Convert to a pattern that means the same in Python and in Java, which Spark's source uses."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)  # of Java's nested sets, such as [a&&[b]]
            re.compile(text(setting))
    except (re.error, FutureWarning) as error:
        raise WrongValueError(f"is not a regular expression: {error}") from None
    return str(setting.value)


def offsets(setting: Setting) -> str:
    """Convert to ``earliest``, ``latest``, or JSON of offsets by topic and partition."""
    value = text(setting)
    if value in ("earliest", "latest"):
        return value
    try:
        document = json.loads(value)
    except ValueError:
        document = None
    is_offsets = isinstance(document, dict) and all(
        isinstance(topic, dict) and all(type(offset) is int for offset in topic.values())
        for topic in document.values()
    )
    if not is_offsets:
        raise WrongValueError(
            "must be 'earliest', 'latest' or JSON such as '{\"topic\": {\"0\": 23, \"1\": -2}}' "
            f"(-2 earliest, -1 latest), is {value!r}"
        )
    return value


def timestamp(setting: Setting) -> int:
    """Convert to milliseconds since 1970, also from ISO 8601 with a time zone."""
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
        f"'2026-11-27T08:00:00Z', is {_describe_value(setting.value)}"
    )


def topic_times(setting: Setting) -> TopicTimes:
    """Convert JSON with a time, in ms since 1970, for each topic or partition."""
    value = text(setting)
    with suppress(ValueError):
        document = json.loads(value)
        if isinstance(document, dict) and all(map(_is_time_of_topic, document.values())):
            return document
    raise WrongValueError(
        "must be JSON of milliseconds since 1970, such as '{\"orders\": 1764230400000}' or "
        f'\'{{"orders": {{"0": 1764230400000}}}}\', is {value!r}'
    )


def _is_time_of_topic(value: object) -> bool:
    times = value.values() if isinstance(value, dict) else (value,)
    return all(type(time) is int and time >= 0 for time in times)


def free_text(setting: Setting) -> str:
    """Convert to text that is passed on to Paimon, Kafka or Spark."""
    value = setting.value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return ",".join(value)
    if isinstance(value, str | int | float):
        return str(value)
    raise WrongValueError(f"must be a string, number or truth value, is {_describe_value(value)}")


def _describe_value(value: object) -> str:
    type_texts = {bool: "a truth value", int: "a whole number", float: "a fractional number"}
    type_texts |= {str: "a string", list: "a list", dict: "a table"}
    type_text = type_texts.get(type(value), f"a {type(value).__name__}")
    return f"{type_text} ({json.dumps(value, default=str)})"
