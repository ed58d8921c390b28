"""Sends a job's JSON log lines, notices, traces, lineage and offsets."""
