"""Reports that a job sends by itself: JSON log lines, a webhook, OTLP, and numbers for Spark."""
