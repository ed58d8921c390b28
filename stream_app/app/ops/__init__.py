"""What operators ask of a job and its tables: look, check, replay, backfill, propose."""
