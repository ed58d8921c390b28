"""Reads the column names in the Kafka keys of messages, but not the values.

`key_proof` calls it for changes without a before-image that proves the row. The keys of a table
mostly have one shape. So the reader learns the shape from one key, and compares the other keys with
it by a regular expression. Keys may have a schema envelope. A key of another shape is parsed alone.

Source: Kafka Connect `json/JsonConverter.java`; a key of Debezium's is a struct of the columns.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import (
    Bools,
    Int32s,
    bools_of,
    bytes_of,
    lengths_of,
    offsets_of,
    valid_of,
)
from stream_app.cdc.columns.time_columns import cast_isolating
from stream_app.cdc.json_message import quick_document

KeyFields = frozenset[str] | None
"""The names of a key's fields; None if the key is not a JSON object."""

NO_KEY: frozenset[str] = frozenset()
"""The fields of a key that is null."""
_SHAPES_MAX = 32
_SHAPE_NAMES_MAX = 4_000
_SHAPE_FIELDS_MAX = 200
"""The most bytes of a shape's names, and the most names: Arrow limits the size of an expression."""
_PAYLOAD = b'"payload":'
_HEX = "[0-9a-fA-F]"
# A high surrogate of UTF-16 is followed by a low one.
_UTF_16 = (
    rf"[0-9a-ce-fA-CE-F]{_HEX}{{3}}|[dD](?:[0-7]|[89abAB]{_HEX}{{2}}\\u[dD][c-fC-F]){_HEX}{{2}}"
)
_STRING = rf'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u(?:{_UTF_16})))*"'
_NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?"
_BLANKS = r"[ \t\r\n]*"
_SCALAR = rf"{_BLANKS}(?:{_STRING}|{_NUMBER}|true|false|null){_BLANKS}"
# A number without a scale is an object: {"scale":0,"value":"AQ=="}.
_FIELD = rf"{_BLANKS}{_STRING}{_BLANKS}:{_SCALAR}"
_VALUE = rf"(?:{_SCALAR}|{_BLANKS}\{{(?:{_FIELD}(?:,{_FIELD})*|{_BLANKS})\}}{_BLANKS})"
"""A strict expression of JSON: keys that it matches parse to the same names."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """The pattern of one table's keys: fixed bytes, and an expression from the fields on."""

    prefix: bytes
    pattern: str

    def fits(self, keys: pa.Array) -> Bools:
        """Mark the keys with this shape."""
        if not self.prefix:
            return self._fit_mask(keys)
        # Comparing the schema's bytes is ten times faster than an expression over them.
        has_shape = bools_of(pc.starts_with(keys, pattern=self.prefix))
        has_shape &= bools_of(pc.ends_with(keys, pattern=b"}"))
        candidates = keys if has_shape.all() else keys.filter(pa.array(has_shape))
        fields = pc.binary_slice(candidates, len(self.prefix), -1)
        has_shape[has_shape] = self._fit_mask(fields)
        return has_shape

    def _fit_mask(self, fields: pa.Array) -> Bools:
        """Mark the fields that match the expression and are UTF-8."""
        matches = bools_of(pc.match_substring_regex(fields, pattern=self.pattern))
        return matches & valid_of(cast_isolating(fields, pa.string()))


@dataclass(slots=True)
class MessageKeys:
    """A reader of keys, which caches the shapes that it has seen."""

    _shapes: dict[_Shape, frozenset[str]] = field(init=False, default_factory=dict)

    def fields_of(self, keys: pa.Array) -> tuple[Int32s, list[KeyFields]]:
        """Return the names of each key's fields.

        Args:
            keys: binary.

        Returns:
            For each key an index in the list of distinct names.
        """
        code_of_names: dict[KeyFields, int] = {NO_KEY: 0, None: 1}
        codes: Int32s = valid_of(keys).astype(np.int32)
        unread_indices = np.flatnonzero(_may_be_object(keys))
        for known_shape, known_names in list(self._shapes.items()):
            unread_indices = _assign_same_shape(
                keys, unread_indices, known_shape, codes, _code(code_of_names, known_names)
            )
        while len(unread_indices) and len(self._shapes) < _SHAPES_MAX:
            names, shape = _names_and_pattern(keys[int(unread_indices[0])].as_py())
            codes[unread_indices[0]] = _code(code_of_names, names)
            unread_indices = unread_indices[1:]
            if shape is None or names is None or shape in self._shapes:
                break  # a known shape that its own key does not have would be learnt for each key
            self._shapes[shape] = names
            unread_indices = _assign_same_shape(
                keys, unread_indices, shape, codes, _code(code_of_names, names)
            )
        # A loop over keys that resemble no other.
        for index in unread_indices.tolist():
            codes[index] = _code(code_of_names, _names_and_pattern(keys[index].as_py())[0])
        return codes, list(code_of_names)


def _may_be_object(keys: pa.Array) -> Bools:
    has_brace: Bools = lengths_of(keys) > 0
    has_brace &= valid_of(keys)
    has_brace[has_brace] = bytes_of(keys)[offsets_of(keys)[:-1][has_brace]] == ord("{")
    return has_brace


def _assign_same_shape(
    keys: pa.Array, unread_indices: npt.NDArray[np.int64], shape: _Shape, codes: Int32s, code: int
) -> npt.NDArray[np.int64]:
    """Assign the code to the keys with this shape, and return the other keys."""
    if not len(unread_indices):
        return unread_indices
    has_shape = shape.fits(
        keys if len(unread_indices) == len(keys) else keys.take(pa.array(unread_indices))
    )
    codes[unread_indices[has_shape]] = code
    return unread_indices[~has_shape]


def _code(code_of_names: dict[KeyFields, int], names: KeyFields) -> int:
    return code_of_names.setdefault(names, len(code_of_names))


def _names_and_pattern(key: bytes) -> tuple[KeyFields, _Shape | None]:
    """Return the field names of one message key, and a pattern that matches keys of the same form.

    The pattern is None if the key cannot have one.
    """
    document = quick_document(key)
    if not isinstance(document, dict) or document.keys() != {"schema", "payload"}:
        return _names_and_shape(document, b"")
    prefix = key[: key.rfind(_PAYLOAD) + len(_PAYLOAD)]
    if document["payload"] is None:
        return NO_KEY, None
    is_prefix = prefix + orjson.dumps(document["payload"]) + b"}" == key
    names, shape = _names_and_shape(document["payload"], prefix)
    return names, shape if is_prefix else None


def _names_and_shape(fields: object, prefix: bytes) -> tuple[KeyFields, _Shape | None]:
    if not isinstance(fields, dict):
        return None, None
    size = sum(len(name.encode()) for name in fields)
    if size > _SHAPE_NAMES_MAX or len(fields) > _SHAPE_FIELDS_MAX:
        return frozenset(fields), None
    members = ",".join(rf'{_BLANKS}"{_literal(name)}"{_BLANKS}:{_VALUE}' for name in fields)
    return frozenset(fields), _Shape(prefix, rf"\A{_BLANKS}\{{{members}\}}{_BLANKS}\z")


def _literal(text: str) -> str:
    """Return an expression that matches exactly these bytes.

    Arrow compares binary values by bytes.
    """
    return "".join(f"\\x{byte:02x}" for byte in text.encode())
