"""What the job's ports have in common: how many connections, and for how long."""
