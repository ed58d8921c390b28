"""`python -m stream_app` is `stream-app`.

Ctrl-C never prints a traceback. While a verb runs, it raises `KeyboardInterrupt`. Before and after
that it ends the process at once, because nothing needs cleaning up.
"""

import importlib
import os
import signal
import sys

_INTERRUPTED = 130


def run() -> None:
    """Run the command line and exit the process."""
    handles_ctrl_c = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if handles_ctrl_c:  # otherwise the parent process has asked to ignore Ctrl-C
        signal.signal(signal.SIGINT, _end)
    # Ctrl-C may arrive during the imports.
    process = importlib.import_module("stream_app.process.lean_imports")
    with process.lean_imports():
        cli = importlib.import_module("stream_app.app.cli.main")
        cli.verb_module(sys.argv[1:])
    if handles_ctrl_c:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    code: int = cli.main(sys.argv[1:])
    if handles_ctrl_c:
        signal.signal(signal.SIGINT, _end)
    sys.exit(code)


def _end(signal_number: int, frame: object) -> None:  # noqa: ARG001 - as `signal` calls it
    os._exit(_INTERRUPTED)


if __name__ == "__main__":
    run()
