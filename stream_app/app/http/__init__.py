"""What the job's ports have in common: who is let in, for how long, and how many at a time."""
