"""What a running job tells of itself: events, numbers, health, notices."""
