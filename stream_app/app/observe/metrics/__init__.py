"""A job's numbers and health, and the HTTP endpoint that serves them."""
