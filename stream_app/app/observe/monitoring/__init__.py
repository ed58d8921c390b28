"""What a job sends by itself: log lines as JSON, a webhook, OTLP, and numbers for Spark."""
