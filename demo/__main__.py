"""``./run.sh demo``."""

from __future__ import annotations

import sys

from stream_app.app.cli import Verb, main

VERB = Verb("demo", "demo.demo", "watch a shop's database become tables, ALTER and crash included")

if __name__ == "__main__":
    sys.exit(main(["demo", *sys.argv[1:]], verbs=(VERB,), program="./run.sh"))
