"""Operations on a job and its tables: inspect, check, replay, backfill, propose."""
