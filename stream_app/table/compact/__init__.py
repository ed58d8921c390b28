"""Which buckets are compacted, when, and what came of it. Start with `coordinator`."""
