"""Pure decisions about tables, and about the tables of a job. See `commit.conflict_detection`."""
