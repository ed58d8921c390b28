"""Reports of a running job: events, numbers, health, notices."""
