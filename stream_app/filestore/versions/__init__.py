"""Files that name versions: snapshots, tags, changelogs, schemas, consumers."""
