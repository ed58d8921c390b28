"""Reports that a job sends by itself: JSON log lines, notices, traces, lineage and offsets."""
