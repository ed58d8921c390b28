"""Reads and writes files of versions: snapshots, tags, changelogs, schemas, consumers."""
