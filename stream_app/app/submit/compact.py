"""The file for ``spark-submit``: ``spark-submit … stream_app/app/submit/compact.py TABLE``.

See ingest.py beside it.
"""

from __future__ import annotations

import sys

from stream_app.app.compact_job import main

if __name__ == "__main__":
    sys.exit(main())
