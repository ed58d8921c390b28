"""The script for ``spark-submit``: ``spark-submit … stream_app/app/submit/ingest.py --conf FILE``.

Spark puts this folder first on the import path, so no module in it has the name of a library.
"""

from __future__ import annotations

import os
import signal
import sys

if __name__ == "__main__":
    # Until the job handles signals itself, it has nothing to clean up, and a traceback would not
    # help.
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signal_number, lambda signal_received, _: os._exit(128 + signal_received))

    from stream_app.process.lean_imports import lean_imports

    with lean_imports():
        from stream_app.app.submit.ingest_main import main

    sys.exit(main())
