"""The version of stream_app, which each snapshot that it commits records, and its extras."""

from __future__ import annotations

import shlex
import sys

VERSION = "0.1.0"


def install_command(extra: str) -> str:
    """Return the command that installs an extra into the environment of this process.

    A checkout's environment is `.venv`, whose pip is not the shell's.
    """
    return f"{shlex.quote(sys.executable)} -m pip install 'stream_app[{extra}]'"
