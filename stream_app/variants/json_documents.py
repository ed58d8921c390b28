"""Converts one JSON text into a VARIANT, as Spark's `parse_json` does.

An integer takes as few bytes as possible. A number with a fraction is a decimal, or a double if it
has an exponent or more than 38 digits. Three inputs that Spark changes silently are refused: text
after the value, unpaired surrogates, and numbers beyond a double's range.

Source: Paimon `data/variant/GenericVariantBuilder.java`.
"""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from typing import Any, NoReturn

from stream_app.variants import scalars
from stream_app.variants.containers import NameNumbers, array_of, object_of
from stream_app.variants.layout import SIZE_MAX, VARIANT_NESTING_MAX

_DIGITS = re.compile(r"-?[0-9.]+")
_INT64 = range(-(1 << 63), 1 << 63)
_INT64_DIGITS = 19


class _DocumentNumber(str):
    """A number of the document, as it is written."""

    __slots__ = ()


class _Members(list[tuple[str, Any]]):
    """The members of an object, repeated names included."""

    __slots__ = ()


def parse_json(text: str) -> tuple[bytes, bytes]:
    """Return the value and the metadata of a document.

    Raises:
        ValueError: the text is not JSON, repeats a name, nests too deeply, or is too large.
    """
    try:
        document = json.loads(
            text,
            parse_int=_DocumentNumber,
            parse_float=_DocumentNumber,
            parse_constant=_refuse_constant,
            object_pairs_hook=_Members,
        )
        names = NameNumbers()
        value, metadata = _encode(document, names, 0), names.metadata()
    except RecursionError:
        raise ValueError("it nests too deeply") from None
    if max(len(value), len(metadata)) > SIZE_MAX:
        raise ValueError("it is too large")
    return value, metadata


def _encode(document: Any, names: NameNumbers, depth: int) -> bytes:
    """Return the bytes of a JSON document, and add its names to `names`.

    Raises:
        ValueError: it nests too deeply, or has a name that UTF-8 cannot encode.
    """
    if depth > VARIANT_NESTING_MAX:
        raise ValueError("it nests too deeply")
    match document:
        case _Members():
            for name, _ in document:
                name.encode()  # refuses unpaired surrogates
            members = []
            for name, value in document:
                names.number(name)
                members.append((name, _encode(value, names, depth + 1)))
            return object_of(members, names)
        case list():
            return array_of([_encode(element, names, depth + 1) for element in document])
        case _DocumentNumber():
            return _encode_number(document)
        case str():
            return scalars.text(document)
        case bool():
            return scalars.boolean(document)
        case _:
            return scalars.NULL


def _encode_number(text: str) -> bytes:
    if len(text.lstrip("-")) <= _INT64_DIGITS and "." not in text and "e" not in text.lower():
        integer = int(text)
        if integer in _INT64:
            return scalars.integer(integer)
    if _DIGITS.fullmatch(text):
        decimal = scalars.decimal(Decimal(text))
        if decimal is not None:
            return decimal
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text} is beyond every double")
    return scalars.float64(value)


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")
