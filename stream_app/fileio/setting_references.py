"""Resolves references to environment variables and files: ``${env:NAME}`` and ``${file:PATH}``.

Settings use them for secrets. A process's environment variables stay the same. A file can be
rewritten with a key that replaces an expired one (`s3_keys`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

REFERENCE = re.compile(r"\$\{(env|file):([^}]*)\}")


class MissingValueError(Exception):
    """A reference cannot be resolved; the error names the reason but never a value."""


def names_file(text: str) -> bool:
    """Return whether the text contains a reference to a file."""
    return any(reference[1] == "file" for reference in REFERENCE.finditer(text))


def resolve_references(text: str, environ: Mapping[str, str]) -> str:
    """Return the text with its references replaced.

    Raises:
        MissingValueError: a variable or file does not exist.
    """
    return REFERENCE.sub(lambda reference: resolve_reference(reference, environ), text)


def resolve_reference(reference: re.Match[str], environ: Mapping[str, str]) -> str:
    """Return the value to which a match of `REFERENCE` refers.

    Raises:
        MissingValueError: a variable or file does not exist.
    """
    kind, name = reference.groups()
    if kind == "env":
        if name not in environ:
            raise MissingValueError(f"{reference[0]}: there is no such variable")
        return environ[name]
    try:
        # Secret files often end with a line feed that is not part of the secret.
        return Path(name).read_text("utf-8").rstrip("\r\n")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise MissingValueError(f"{reference[0]}: the file cannot be read: {reason}") from None
