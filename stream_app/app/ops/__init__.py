"""Operations on a job and its tables, such as check, replay and backfill."""
