"""Expires versions, manages tags, rolls back, deletes orphans. Start with `expire_snapshots`."""
