"""Decides which buckets are compacted and when, and takes the results.

Start with `bucket_coordinator`.

`table.stream_commit.compaction_publisher` publishes them; it stands above, because it also needs
commits.
"""
