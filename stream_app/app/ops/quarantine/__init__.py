"""Lists, replays and drops records in the quarantine."""
