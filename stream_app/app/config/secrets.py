"""Secrets: recognises secret settings, and hides their texts in all output.

A setting is a secret by its name. Its text can appear anywhere, for example in the error of a
client. So `hiding` searches the streams, log and events of jobs and of the command line for it.
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
_QUOTED = re.compile(
    # These are of Java's login modules: password, clientSecret, and others named so.
    r'\b\w*(?:password|secret|token)\w*\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))',
    re.IGNORECASE,
)
_LENGTH_MIN = 4
"""Hiding shorter texts would turn the log into stars; they are still hidden under their names."""


def is_secret(name: str) -> bool:
    """Whether a key, or the name of a variable or file, says that its value is a secret."""
    return _NAMES.search(name) is not None and not name.endswith((".provider", ".enabled"))


class Secrets:
    """Texts that no output may show.

    Args:
        values: whole values of settings; a password within ``sasl.jaas.config`` is found.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        forms = {form for value in values for form in _forms(value)}
        # The longest first, because one may contain another.
        self._forms = sorted((f for f in forms if len(f) >= _LENGTH_MIN), key=len, reverse=True)

    def hide(self, text: str) -> str:
        """The text without them."""
        for form in self._forms:
            text = text.replace(form, HIDDEN)
        return text

    def hide_escaped(self, text: str, escape: Callable[[str], str]) -> str:
        """Hide secrets as `hide` does, in a text whose parts were escaped."""
        for form in self._forms:
            text = text.replace(form, HIDDEN).replace(escape(form), HIDDEN)
        return text

    def are_in(self, text: str) -> bool:
        """Whether the text contains a secret."""
        return any(form in text for form in self._forms)


class HidingStream:
    """A text stream that hides secrets."""

    def __init__(self, stream: IO[str], secrets: Secrets) -> None:
        self._stream = stream
        self._secrets = secrets

    def write(self, text: str) -> int:
        """Write the text without them."""
        self._stream.write(self._secrets.hide(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write the texts without them."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def hidden(stream: IO[str], secrets: Secrets) -> IO[str]:
    """The stream, with secrets hidden."""
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
            redirect_stdout(hidden(sys.stdout, secrets)),
            redirect_stderr(hidden(sys.stderr, secrets)),
        ):
            yield
    finally:
        for handler in handlers:
            handler.removeFilter(hide)


def _forms(value: str) -> Iterator[str]:
    """A secret as it is, quoted, and line by line like a key in a file."""
    parts = [value, *(quoted[1] or quoted[2] for quoted in _QUOTED.finditer(value))]
    for part in parts:
        for text in (part, re.sub(r"\\(.)", r"\1", part)):
            yield text
            yield json.dumps(text)[1:-1]
            yield json.dumps(text, ensure_ascii=False)[1:-1]
            yield repr(text)[1:-1]
            yield quote(text, safe="")
    yield from (line for line in value.splitlines() if not line.startswith("-----"))
