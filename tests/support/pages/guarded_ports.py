"""A process with the port of the metrics and that of the page, and few descriptors.

    python -m tests.support.pages.guarded_ports WAREHOUSE DESCRIPTORS

Prints both ports. It counts its open files in a metric. Ends with its input.
"""

from __future__ import annotations

import logging
import resource
import sys
from pathlib import Path
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry, Gauge

from stream_app.app.observe.metrics.endpoint import serving_metrics
from stream_app.app.web.serving import serving_pages
from stream_app.app.web.site import WarehouseSite
from stream_app.clock import SystemClock
from stream_app.fileio.store_registry import file_io_of
from tests.support.jobs.ingest_process import a_free_port


def main(warehouse: str, descriptors: int) -> None:
    logging.basicConfig(level=logging.INFO)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, most))
    registry, port = CollectorRegistry(), a_free_port()
    files = Gauge("open_files", "Of this process.", registry=registry)
    files.set_function(lambda: len(list(Path("/proc/self/fd").iterdir())))
    site = WarehouseSite(*file_io_of(warehouse), {}, SystemClock())
    with serving_metrics(registry, port), serving_pages(site, "127.0.0.1", 0, "token") as page:
        print(port, urlsplit(page).port, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
