"""The image's HEALTHCHECK: asks the job's ``/healthz``, because a slim image has no curl.

A container of another verb, such as ``web``, has no such answer: it is healthy while it runs.
"""

import os
import sys
import urllib.error
import urllib.request
from itertools import pairwise
from pathlib import Path

PORT = os.environ.get("STREAM_APP_STREAM__METRICS_PORT", "9400")
SECONDS = 5.0

# The first process of the container: tini with the entrypoint's path and the verb.
first = Path(sys.argv[1] if len(sys.argv) > 1 else "/proc/1/cmdline")
command = first.read_text().split("\0") if first.exists() else []
for script, verb in pairwise(command):
    if script.endswith(("entrypoint.sh", "job.sh")) and verb not in ("ingest", "driver"):
        sys.stdout.write(f"{verb} has no /healthz, and runs\n")
        sys.exit(0)

# A proxy of the environment is for other machines.
directly = urllib.request.build_opener(urllib.request.ProxyHandler({}))
try:
    with directly.open(f"http://127.0.0.1:{PORT}/healthz", timeout=SECONDS) as answer:
        sys.stdout.write(answer.read().decode())
except urllib.error.HTTPError as refused:  # a 503 has the reasons in lines
    sys.exit(refused.read().decode())
except OSError as error:
    sys.exit(f"no answer on port {PORT}: {error}")
