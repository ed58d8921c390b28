"""The events of a job: log lines about epochs, commits and tables."""
