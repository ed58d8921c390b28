"""Which buckets are compacted, when, and with what outcome. Start with `coordinator`."""
