"""Decides conflicts, retries and manifests of a commit. Start with `conflict_detection`."""
