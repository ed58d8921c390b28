"""The file for ``spark-submit``: ``spark-submit … stream_app/app/submit/ingest.py --conf FILE``.

It stands in a folder of its own, because Spark puts the script's folder first on the import path.
"""

from __future__ import annotations

import sys

from stream_app.app.ingest_job import main

if __name__ == "__main__":
    sys.exit(main())
