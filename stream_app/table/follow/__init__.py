"""Reading a table's changes as they come. Start with `changelog_follow`."""
