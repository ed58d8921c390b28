"""Parses the texts of ``sasl.jaas.config``: the login module and its options.

Source: Kafka `security/JaasConfig.java`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_TOKEN = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s=;"']+|=|;)""", re.DOTALL)
_ESCAPED = re.compile(r"\\([0-7]{1,3}|.)", re.DOTALL)
_CONTROL = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "b": "\b", "a": "\a", "v": "\v"}
_FLAGS = ("required", "requisite", "sufficient", "optional")


class JaasError(ValueError):
    """The text is not one login module with its options."""


@dataclass(frozen=True, slots=True)
class LoginModule:
    """A module and its options.

    Attributes:
        name: of the class, without its package, e.g. ``PlainLoginModule``.
    """

    name: str
    options: Mapping[str, str] = field(repr=False)


def read_jaas(text: str) -> LoginModule:
    """The login module of ``CLASS FLAG KEY="VALUE" …;``.

    Raises:
        JaasError: the text has another form; the error does not show it, because it may hold
            passwords.
    """
    tokens = _tokens(text)
    if len(tokens) < 3 or tokens[1].lower() not in _FLAGS or tokens[-1] != ";":
        raise JaasError('it must be CLASS required KEY="VALUE" …; and end with a semicolon')
    pairs = tokens[2:-1]
    if len(pairs) % 3 or any(sign != "=" for sign in pairs[1::3]):
        raise JaasError('after CLASS required there must be KEY="VALUE" and nothing else')
    options = {
        _plain(key): _plain(value) for key, value in zip(pairs[::3], pairs[2::3], strict=True)
    }
    return LoginModule(tokens[0].rsplit(".", maxsplit=1)[-1], options)


def _tokens(text: str) -> list[str]:
    tokens, at, text = [], 0, text.strip()
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise JaasError("a quotation mark has no second one")
        tokens.append(token[1])
        at = token.end()
    return tokens


def _plain(token: str) -> str:
    if token[0] not in "\"'":
        return token
    return _ESCAPED.sub(lambda match: _unescaped(match[1]), token[1:-1])


def _unescaped(text: str) -> str:
    return chr(int(text, 8)) if text[0] in "01234567" else _CONTROL.get(text, text)
