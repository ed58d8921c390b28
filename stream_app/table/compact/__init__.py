"""Decides which buckets are compacted and when, and takes the results.

Start with `buckets.bucket_coordinator`. A task begins in `table.kinds.bucket_compaction`, which
chooses the compaction of the table's kind.

`table.job.compaction_publisher` publishes them; it is above, because it also needs commits. A table
in docs/ARCHITECTURE.md follows a compaction through all packages.
"""
