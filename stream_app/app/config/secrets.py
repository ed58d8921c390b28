"""Recognises secret settings by their names, and hides their texts in all output.

A secret's text can appear anywhere, for example in the error of a client library. So `hiding`
filters the streams and logs of jobs and of the command line.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import IO, Any, cast
from urllib.parse import quote

HIDDEN = "****"
_NAMES = re.compile(
    r"passw|passphrase|pwd|secret|jaas|token|credential|access[._-]?key|keystore[._]key|webhook[._-]?url|\bheader\.",
    re.IGNORECASE,
)
_QUOTED_SECRET = re.compile(
    # Options of Java's login modules, such as password and clientSecret.
    r'\b\w*(?:password|secret|token)\w*\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))',
    re.IGNORECASE,
)
_LENGTH_MIN = 4
"""The minimum length of a text that is hidden everywhere. Shorter texts are hidden at their key
alone, because logs would be unreadable."""


def is_secret(name: str) -> bool:
    """Return whether the name of a key, variable or file marks its value as a secret."""
    return _NAMES.search(name) is not None and not name.endswith((".provider", ".enabled"))


class Secrets:
    """Texts that no output may contain.

    Args:
        values: whole values of settings, among them ``sasl.jaas.config`` with the passwords in it.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        spellings = {spelling for value in values for spelling in _spellings(value)}
        # The longest first, because one may contain another.
        self._spellings = sorted(
            (spelling for spelling in spellings if len(spelling) >= _LENGTH_MIN),
            key=len,
            reverse=True,
        )

    def hide(self, text: str) -> str:
        """Return the text with each secret replaced by stars."""
        for spelling in self._spellings:
            text = text.replace(spelling, HIDDEN)
        return text

    def hide_escaped(self, text: str, escape: Callable[[str], str]) -> str:
        """Hide secrets also in their escaped form."""
        for spelling in self._spellings:
            text = text.replace(spelling, HIDDEN).replace(escape(spelling), HIDDEN)
        return text

    def occur_in(self, text: str) -> bool:
        """Return whether the text contains a secret."""
        return any(spelling in text for spelling in self._spellings)


class HidingStream:
    """A text stream that hides secrets in what is written to it."""

    def __init__(self, stream: IO[str], secrets: Secrets) -> None:
        self._stream = stream
        self._secrets = secrets

    def write(self, text: str) -> int:
        """Write the text with secrets hidden."""
        self._stream.write(self._secrets.hide(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write the texts with secrets hidden."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def hiding_stream(stream: IO[str], secrets: Secrets) -> IO[str]:
    """Wrap a stream so that it hides secrets."""
    return cast(IO[str], HidingStream(stream, secrets))


@contextmanager
def hiding(secrets: Secrets) -> Iterator[None]:
    """Within the block, hide secrets in everything that this process prints and logs."""

    def hide(record: logging.LogRecord) -> bool:
        record.msg, record.args = secrets.hide(record.getMessage()), None
        if record.exc_info:
            text = logging.Formatter().formatException(record.exc_info)
            record.exc_text, record.exc_info = secrets.hide(text), None
        return True

    handlers = list(logging.getLogger().handlers)
    for handler in handlers:
        handler.addFilter(hide)
    try:
        with (
            redirect_stdout(hiding_stream(sys.stdout, secrets)),
            redirect_stderr(hiding_stream(sys.stderr, secrets)),
        ):
            yield
    finally:
        for handler in handlers:
            handler.removeFilter(hide)


def _spellings(value: str) -> Iterator[str]:
    """Yield a secret as it is, in quoted forms, and line by line like a key in a file."""
    parts = [value, *(match[1] or match[2] for match in _QUOTED_SECRET.finditer(value))]
    for part in parts:
        for text in (part, re.sub(r"\\(.)", r"\1", part)):
            yield text
            yield json.dumps(text)[1:-1]
            yield json.dumps(text, ensure_ascii=False)[1:-1]
            yield repr(text)[1:-1]
            yield quote(text, safe="")
    yield from (line for line in value.splitlines() if not line.startswith("-----"))
