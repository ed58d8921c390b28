"""Retention, tags, rollback and orphans. Start with `expire_snapshots`."""
