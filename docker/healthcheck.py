"""The image's HEALTHCHECK: asks the job's ``/healthz``, because a slim image has no curl."""

import os
import sys
import urllib.error
import urllib.request

PORT = os.environ.get("STREAM_APP_STREAM__METRICS_PORT", "9400")
SECONDS = 5.0

# A proxy of the environment is for other machines.
directly = urllib.request.build_opener(urllib.request.ProxyHandler({}))
try:
    with directly.open(f"http://127.0.0.1:{PORT}/healthz", timeout=SECONDS) as answer:
        sys.stdout.write(answer.read().decode())
except urllib.error.HTTPError as refused:  # a 503 has the reasons in lines
    sys.exit(refused.read().decode())
except OSError as error:
    sys.exit(f"no answer on port {PORT}: {error}")
