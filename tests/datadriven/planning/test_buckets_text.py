"""Counts of hashes by bucket in; the buckets that take new keys out."""

from __future__ import annotations

from pathlib import Path

from stream_app.planning.buckets.open_buckets import DynamicBucketRules, open_buckets
from tests.support.datadriven import Case, run_file

HERE = Path(__file__).parent


def _open(case: Case) -> str:
    counts = {
        int(bucket): int(hashes)
        for bucket, hashes in (line.split(":") for line in case.input_lines)
    }
    given = {"width": "1", "max": "32767", **case.args}
    rules = DynamicBucketRules(
        target_rows=int(given["target"]),
        width=int(given["width"]),
        max_buckets=int(given["max"]),
    )
    return " ".join(map(str, open_buckets(counts, rules)))


def test_open_buckets() -> None:
    run_file(HERE / "open_buckets.txt", _open)
