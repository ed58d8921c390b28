"""Splits a condition into tokens, and makes errors that show a position in it.

`parser` interprets the tokens.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum

from stream_app.errors import UsageError

_TOKEN = re.compile(
    r"""(?P<space>\s+)
      | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
      | (?P<bytes>[xX]'(?:[0-9a-fA-F]{2})*')
      | (?P<text>'(?:[^']|'')*')
      | (?P<quoted>`[^`]+`|"[^"]+")
      | (?P<word>[^\W\d]\w*)
      | (?P<sign><>|!=|<=|>=|[][=<>(),.+-])
    """,
    re.VERBOSE,
)
TYPED_LITERALS = ("DATE", "TIME", "TIMESTAMP")
_KEYWORDS = frozenset(
    ("AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "IS", "NULL", "TRUE", "FALSE", *TYPED_LITERALS)
)
_INDENT = len("  where: ")
"""The columns before the text where an error shows it."""
_HELP = {
    "condition": "write such as: amount >= 9.99 AND (status IN ('paid', 'sent') OR "
    "day >= DATE '2024-02-29')",
    "column": "write a name, or such as: variant_get(doc, '$.total', 'INT')",
}


class TokenKind(StrEnum):
    """The kind of a token: a group of `_TOKEN`, or the end of the text."""

    NUMBER = "number"
    BYTES = "bytes"
    TEXT = "text"
    QUOTED = "quoted"
    WORD = "word"
    SIGN = "sign"
    END = "end"


@dataclass(frozen=True, slots=True)
class Token:
    """A token of the condition."""

    kind: TokenKind
    text: str
    position: int

    @property
    def key(self) -> str:
        """The keyword in upper case, or the sign; empty for other tokens."""
        if self.kind is TokenKind.SIGN:
            return self.text
        upper_text = self.text.upper()
        return upper_text if self.kind is TokenKind.WORD and upper_text in _KEYWORDS else ""

    def __str__(self) -> str:
        return "the end" if self.kind is TokenKind.END else self.text


def tokens_of(text: str, subject: str = "condition") -> list[Token]:
    """Return the tokens of a condition or a column, followed by an end token.

    Raises:
        UsageError: the text has a character that conditions do not use.
    """
    tokens: list[Token] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise condition_error(
                text, position, _unreadable_reason(text[position:]), subject=subject
            )
        assert match.lastgroup is not None
        if match.lastgroup != "space":
            tokens.append(Token(TokenKind(match.lastgroup), match[0], position))
        position = match.end()
    return [*tokens, Token(TokenKind.END, "", len(text.rstrip()))]


@dataclass(slots=True, kw_only=True)
class TokenCursor:
    """A cursor that consumes the tokens of a condition from left to right.

    Attributes:
        subject: the kind of text: a ``condition`` or a ``column``.
        index: the index of the next token.
    """

    text: str
    tokens: list[Token]
    subject: str = "condition"
    index: int = field(init=False, default=0)

    @property
    def next_token(self) -> Token:
        """The next token, which is not consumed."""
        return self.tokens[self.index]

    def take(self) -> Token:
        """Consume the next token."""
        token = self.next_token
        self.index += 1
        return token

    def accept(self, key: str) -> bool:
        """Consume the next token if it is this keyword or sign."""
        if self.next_token.key != key:
            return False
        self.index += 1
        return True

    def expect(self, key: str) -> None:
        """Consume a keyword or sign.

        Raises:
            UsageError: the next token is another one.
        """
        if not self.accept(key):
            raise self.expected_error(key)

    def expected_error(self, expectation: str) -> UsageError:
        """Return the error that names what the parser expected instead of the next token."""
        return self.error_at(
            self.next_token.position, f"expected {expectation}, found {self.next_token}"
        )

    def error_at(self, position: int, problem: str, fix: str = "") -> UsageError:
        """Return the error at a position of the text."""
        return condition_error(self.text, position, problem, fix=fix, subject=self.subject)


def _unreadable_reason(rest_text: str) -> str:
    if rest_text[0] in "'\"`":
        return f"the quote {rest_text[0]} is not closed"
    return f"{rest_text[0]!r} has no meaning here"


def condition_error(
    text: str, position: int, problem: str, *, fix: str = "", subject: str = "condition"
) -> UsageError:
    """Return the error at a position of a condition or a column."""
    line = re.sub(r"\s", " ", text)
    return UsageError(
        f"cannot read the {subject}: {problem}",
        where=f"{line}\n{' ' * (_INDENT + position)}^",
        fix=fix or _HELP[subject],
    )
