"""Operations on a job and its tables, such as inspect, check, replay and backfill."""
