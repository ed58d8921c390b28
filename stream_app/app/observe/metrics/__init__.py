"""A job's metrics and health, and the HTTP endpoint that serves them."""
