"""`python -m stream_app` is `stream-app`.

Ctrl-C is quiet from the first moment on. Before the command line is read, and after it has ended,
there is nothing to clear up. In between it is a `KeyboardInterrupt`.
"""

import importlib
import os
import signal
import sys

from stream_app.lean_imports import lean_imports

_INTERRUPTED = 130


def run() -> None:
    """The program; does not come back."""
    is_usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_usual:  # otherwise the parent process wants it ignored
        signal.signal(signal.SIGINT, _end)
    # The import takes a moment, in which Ctrl-C may come.
    with lean_imports():
        cli = importlib.import_module("stream_app.app.cli.main")
        cli.verb_module(sys.argv[1:])
    if is_usual:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    code: int = cli.main(sys.argv[1:])
    if is_usual:
        signal.signal(signal.SIGINT, _end)
    sys.exit(code)


def _end(number: int, frame: object) -> None:  # noqa: ARG001 - as `signal` calls it
    os._exit(_INTERRUPTED)


if __name__ == "__main__":
    run()
