"""Reads JSON objects of metadata files, with errors that name the key.

Numbers are read and written as 64-bit integers: Paimon's identifiers go up to 2^63 - 1, which a
float cannot hold.

A written object has a digest in a key that other readers ignore. Without it, a wrong digit in a
snapshot could name another epoch, and a wrong letter in an optional key would hide the key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

import orjson

from stream_app.errors import RESTORE_FIX, CorruptFileError

DIGEST = "stream_app.digest"
"""The key of the digest, which covers all the others."""
_DIGEST_SIZE = 16
_T = TypeVar("_T")


def encode_object(value: Mapping[str, object]) -> bytes:
    """Encode an object as indented JSON like Java's, without keys whose value is None."""
    present_items = {key: item for key, item in value.items() if item is not None}
    return orjson.dumps(
        {**present_items, DIGEST: _digest(present_items)}, option=orjson.OPT_INDENT_2
    )


def _digest(value: Mapping[str, object]) -> str:
    """Return a digest of the content, independent of order and layout."""
    text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(text, digest_size=_DIGEST_SIZE).hexdigest()


class JsonObject:
    """A decoded JSON object that is read key by key. Errors name its `file_kind`."""

    def __init__(self, value: Any, *, file_kind: str) -> None:
        if not isinstance(value, dict):
            raise _corrupt(file_kind, f"it is {type(value).__name__}, not an object")
        self._value = value
        self._file_kind = file_kind

    @classmethod
    def decode(cls, data: bytes, *, file_kind: str) -> JsonObject:
        """Decode a file.

        Raises:
            CorruptFileError: the bytes are not a JSON object, or differ from those written.
        """
        try:
            value = orjson.loads(data)
        except orjson.JSONDecodeError as error:
            raise _corrupt(file_kind, str(error)) from error
        digest = value.pop(DIGEST, None) if isinstance(value, dict) else None
        if digest is not None and digest != _digest(value):
            raise CorruptFileError(
                f"a {file_kind} file is not what was written: its digest differs",
                fix="restore the file from a backup, or roll the table back to a tag; if it was "
                f"edited on purpose, remove its key {DIGEST!r}",
            )
        return cls(value, file_kind=file_kind)

    def raw(self, key: str) -> Any:
        """Return the decoded value, or None."""
        return self._value.get(key)

    def optional_integer(self, key: str) -> int | None:
        """Return an integer; None if the key is absent or null."""
        return self._optional_value(key, int)

    def integer(self, key: str, default: int | None = None) -> int:
        """Return an integer; CorruptFileError if it is absent without a default."""
        return self._required_value(key, self.optional_integer(key), default)

    def optional_text(self, key: str) -> str | None:
        """Return a text; None if the key is absent or null."""
        return self._optional_value(key, str)

    def text(self, key: str) -> str:
        """Return a text; CorruptFileError if it is absent."""
        return self._required_value(key, self.optional_text(key), None)

    def items(self, key: str) -> list[Any]:
        """Return a list; CorruptFileError if it is absent."""
        return self._required_value(key, self._optional_value(key, list), None)

    def text_map(self, key: str) -> dict[str, str] | None:
        """Return an object with its values as texts; None if the key is absent."""
        value = self._optional_value(key, dict)
        if value is None:
            return None
        return {name: _java_text(item) for name, item in value.items()}

    def unknown_keys(self, known_keys: Collection[str]) -> tuple[str, ...]:
        """Return the unknown keys that have a value."""
        return tuple(
            key
            for key, value in self._value.items()
            if key not in known_keys and value not in (None, [], {})
        )

    def _optional_value(self, key: str, python_type: type[_T]) -> _T | None:
        value = self._value.get(key)
        if value is None:
            return None
        if not isinstance(value, python_type) or isinstance(value, bool):
            raise _corrupt(
                self._file_kind,
                f"{key!r} is {value!r}, which is not of type {python_type.__name__}",
            )
        return value

    def _required_value(self, key: str, value: _T | None, default: _T | None) -> _T:
        result = default if value is None else value
        if result is None:
            raise _corrupt(self._file_kind, f"{key!r} is missing")
        return result


def _java_text(value: object) -> str:
    # Jackson accepts true as the text "true", so other writers' options may lack the quotes.
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _corrupt(file_kind: str, reason: str) -> CorruptFileError:
    return CorruptFileError(
        f"cannot read a {file_kind} file: {reason}",
        fix=RESTORE_FIX,
    )
