"""Runs the command line as a user starts it."""

from __future__ import annotations

import sys
from pathlib import Path

REPO = Path(__file__).resolve().parents[3]
COMMAND = [sys.executable, "-P", "-m", "stream_app"]
